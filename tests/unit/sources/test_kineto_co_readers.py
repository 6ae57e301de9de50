"""A large file is read by several processes, and is the same as read by one."""

from __future__ import annotations

import gzip
import os
import tempfile
from pathlib import Path

import pytest

from kineto_files import case, event, kernel, launch, lost, raw, read, same, written
from slowstep.record.system import processes
from slowstep.sources import kineto
from slowstep.sources._kineto import co_readers
from slowstep.sources._kineto.co_readers import CoReaders
from slowstep.sources._kineto.events import Decode
from slowstep.sources._source import HowRead
from slowstep.timeline.timeline import Timeline

CHUNK_BYTES = 20_000


class Beside:
    """Reads small files as large ones are read, in chunks and with two co-readers; `handed` counts the chunks that co-readers got."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.handed = 0
        self.folder = folder
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        monkeypatch.setattr(kineto, "CHUNK_BYTES", CHUNK_BYTES)
        monkeypatch.setattr(co_readers, "CHUNKS_ALONE", 1)
        hand_over = CoReaders.hand_over

        def counted(one: CoReaders, text: bytes, decode: Decode) -> bool:
            taken = hand_over(one, text, decode)
            self.handed += taken
            return taken

        monkeypatch.setattr(CoReaders, "hand_over", counted)

    def read(self, path: Path) -> Timeline:
        self._monkeypatch.setattr(kineto, "co_readers_here", lambda: 2)
        # Other tests of this process may have children.
        before = set(processes.tree(os.getpid()))
        timeline = read(path)
        assert list(self.folder.iterdir()) == []
        assert set(processes.tree(os.getpid())) <= before
        return timeline

    def read_alone(self, path: Path) -> Timeline:
        self._monkeypatch.setattr(kineto, "co_readers_here", lambda: 0)
        return read(path)


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Beside:
    folder = tmp_path / "temporary"
    folder.mkdir()
    return Beside(monkeypatch, folder)


# Collectives, times that no float holds, stacks, and the words of 2022.
REST = ("a100_collectives", "mi300_python_frames", "a100_2022")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "v100_nanoseconds",
        "b200",
        *(pytest.param(name, marks=pytest.mark.slow) for name in REST),
    ],
)
def test_co_readers_give_equal_tables_and_notes(name: str, beside: Beside) -> None:
    timeline = beside.read(case(name))
    assert beside.handed >= 2
    alone = beside.read_alone(case(name))
    assert same(timeline, alone)
    assert timeline.health == alone.health
    assert timeline.trace == alone.trace


@pytest.mark.slow
def test_events_of_one_time_stay_in_the_order_of_the_file(beside: Beside, tmp_path: Path) -> None:
    # As many as of several chunks; what is told of each is in no other column.
    path = written(tmp_path, [event(f"op {number}", 1000, 0) for number in range(2_000)])
    names = beside.read(path).table("host_events")["name"].to_list()
    assert beside.handed >= 2
    assert names == [f"op {number}" for number in range(2_000)]


def test_what_is_wrong_with_events_is_counted_by_co_readers_too(beside: Beside, tmp_path: Path) -> None:
    events = [event("op", 1000 + number, -1 if number % 2 else 1) for number in range(2_000)]
    events += [kernel(5000 + number, 1, number, args={"registers per thread": 10_000}) for number in range(200)]
    path = written(tmp_path, events)
    found = lost(beside.read(path))
    assert beside.handed >= 2
    assert found == lost(beside.read_alone(path))
    assert found["negative-durations"] == 1_000


@pytest.mark.slow
def test_sizes_that_only_calls_know_reach_copies_read_elsewhere(beside: Beside, tmp_path: Path) -> None:
    calls = [launch(number, 1 + number, name="hipMemcpyAsync", args={"size": "4096"}) for number in range(1_000)]
    copies = [kernel(2_000 + number, 1, 1 + number, name="Memcpy HtoD", cat="gpu_memcpy") for number in range(1_000)]
    timeline = beside.read(written(tmp_path, calls + copies))
    assert beside.handed >= 2
    assert timeline.table("device_events")["bytes"].to_list() == [4096] * 1_000


@pytest.mark.slow
def test_a_damaged_file_is_read_by_one_process(beside: Beside, tmp_path: Path) -> None:
    text = gzip.decompress(case("a100_collectives").read_bytes())
    middle = text.index(b'"ts"', len(text) // 2)
    path = raw(tmp_path, text[:middle] + b'"ts": @' + text[middle + 4 :])
    timeline = beside.read(path)
    assert beside.handed >= 2
    assert lost(timeline)["malformed-events"] == 1
    assert same(timeline, beside.read_alone(path))


@pytest.mark.slow
def test_begins_and_ends_in_different_chunks_are_joined(beside: Beside, tmp_path: Path) -> None:
    between = [event("op", 10 + number, 1) for number in range(2_000)]
    begin, end = ({"ph": phase, "cat": "own", "name": "all", "pid": 100, "tid": 100, "ts": ts} for phase, ts in (("B", 1), ("E", 5_000)))
    path = written(tmp_path, [event("first", 0, 1), begin, *between, end, event("last", 5_001, 1)])
    timeline = beside.read(path)
    assert beside.handed >= 2
    assert same(timeline, beside.read_alone(path))
    assert "all" in timeline.table("host_events")["name"].to_list()


@pytest.mark.slow
@pytest.mark.parametrize("when", ["give", "finish", "ended"])
def test_a_co_reader_that_is_lost_costs_only_time(when: str, beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    do = getattr(co_readers._CoReader, when)
    killed = []

    def kill(one: co_readers._CoReader, *given: object) -> object:
        # The second chunk finds a co-reader that died over the first.
        if when != "give" or killed:
            one._process.kill()
            one._process.wait()
        killed.append(one)
        return do(one, *given)

    monkeypatch.setattr(co_readers._CoReader, when, kill)
    timeline = beside.read(case("a100_collectives"))
    assert killed
    assert same(timeline, beside.read_alone(case("a100_collectives")))


@pytest.mark.slow
def test_a_co_reader_that_hangs_is_waited_for_no_longer_than_it_may_take(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(co_readers, "END_WITHIN_S", 0.1)
    monkeypatch.setattr(co_readers, "_CODE", "import time; time.sleep(100)")
    timeline = beside.read(case("a100_collectives"))
    assert beside.handed
    assert same(timeline, beside.read_alone(case("a100_collectives")))


def test_co_readers_that_cannot_be_started_are_done_without(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(co_readers, "isolated_argv", lambda *_: ["/nowhere/python"])
    beside.read(case("a100_collectives"))
    assert beside.handed == 0


def test_a_bound_of_memory_leaves_one_process(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto, "co_readers_here", lambda: 2)
    read(case("a100_collectives"), HowRead(memory_bytes=1 << 30))
    assert beside.handed == 0


@pytest.mark.parametrize(
    ("cores", "quota", "most"),
    [(1, None, 0), (2, None, 1), (64, None, co_readers.MOST_CO_READERS), (64, 2.5, 1), (64, 0.5, 0), (None, None, 0)],
)
def test_co_readers_take_the_cores_that_are_left(
    cores: int | None, quota: float | None, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(co_readers, "cores_allowed", lambda: cores)
    monkeypatch.setattr(co_readers, "cpu_quota", lambda: quota)
    assert co_readers.co_readers_here() == most
