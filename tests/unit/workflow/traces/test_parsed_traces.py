from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from made_traces import device, host, made_trace, step
from slowstep.health import HealthKind
from slowstep.sources._source import PLAIN, HowRead, Source
from slowstep.timeline.coverage import KINDS, TRACED, UNSEEN
from slowstep.timeline.trace_tables import TRACE_TABLES
from slowstep.workflow.traces import parsed_traces
from slowstep.workflow.traces.find import FoundTrace
from slowstep.workflow.traces.parsed_traces import read_cached

AT_MOST = dict.fromkeys(KINDS, TRACED)
WITHOUT_STACKS = AT_MOST | {"functions": UNSEEN}


class Counting:
    """A source that counts how often it is asked."""

    def __init__(self, steps: int = 1) -> None:
        self.reads = 0
        self.begins = range(0, 10 * steps, 10)
        self.source = Source(name="made", reads="made traces", sniff=lambda head, path: True, read=self.read, coverage=AT_MOST)

    def read(self, path, how):
        self.reads += 1
        made = made_trace(
            hosts=[row for at in self.begins for row in self.hosts(at)],
            devices=[device("gemm", at + 3, at + 9, correlation=at + 7, bytes=None) for at in self.begins],
            steps=[step(number, at, at + 10) for number, at in enumerate(self.begins, start=1)],
        )
        return replace(made, coverage=WITHOUT_STACKS, health=(HealthKind("garbage", "notice", "{rows:count row}")(2, rows=5),))

    @staticmethod
    def hosts(at):
        calls = host("cudaLaunchKernel", at + 1, at + 2, "runtime", correlation=at + 7)
        return host("aten::mm", at, at + 5, shapes="[[2, 2]]"), calls


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(parsed_traces, "WORTH_S", 0.0)
    return tmp_path / "cache"


@pytest.fixture
def trace(tmp_path) -> Path:
    file = tmp_path / "trace.json"
    file.write_text("{}")
    return file


def test_the_second_look_is_not_read_again_and_sees_the_same(cache, trace):
    counting = Counting()

    first, second = (read_cached(FoundTrace(path=trace, source=counting.source), PLAIN) for _ in range(2))

    assert counting.reads == 1
    for table in TRACE_TABLES:
        assert_frame_equal(first.table(table.name), second.table(table.name))
    assert (first.trace, first.run, first.health) == (second.trace, second.run, second.health)
    assert first.coverage == second.coverage == WITHOUT_STACKS


@pytest.mark.parametrize("is_kept", [False, True])
def test_of_more_events_than_are_wanted_the_last_steps_are_given_whether_they_were_kept_or_not(cache, trace, is_kept):
    counting = Counting(steps=6)
    if is_kept:
        read_cached(FoundTrace(path=trace, source=counting.source), PLAIN)

    few = read_cached(FoundTrace(path=trace, source=counting.source), HowRead(most_events=12))

    assert counting.reads == 1
    assert few.table("marked_steps")["number"].to_list() == [4, 5, 6]
    assert [len(few.table(name)) for name in ("host_events", "device_events")] == [6, 3]
    assert (few.trace.events, few.table("trace_devices").height) == (12, 1)
    assert {row.name: row.count for row in few.health} == {"garbage": 2, "steps-left-out-for-memory": 3}


def test_few_steps_that_were_wanted_once_are_not_what_is_kept(cache, trace):
    counting = Counting(steps=6)
    read_cached(FoundTrace(path=trace, source=counting.source), HowRead(memory_bytes=1 << 20, most_events=12))

    assert read_cached(FoundTrace(path=trace, source=counting.source), PLAIN).table("marked_steps").height == 6
    assert counting.reads == 2


def test_a_file_that_has_changed_is_read_again(cache, trace):
    counting = Counting()
    read_cached(FoundTrace(path=trace, source=counting.source), PLAIN)

    trace.write_text("{} ")
    read_cached(FoundTrace(path=trace, source=counting.source), PLAIN)

    assert counting.reads == 2


def test_what_is_read_quickly_is_not_kept(cache, trace, monkeypatch):
    monkeypatch.setattr(parsed_traces, "WORTH_S", 60.0)

    read_cached(FoundTrace(path=trace, source=Counting().source), PLAIN)

    assert not cache.exists()


def test_a_spoiled_cache_is_no_fault(cache, trace):
    counting = Counting()
    read_cached(FoundTrace(path=trace, source=counting.source), PLAIN)
    for file in cache.rglob("*.arrow"):
        file.write_bytes(b"not arrow")

    assert read_cached(FoundTrace(path=trace, source=counting.source), PLAIN).trace is not None
    assert counting.reads == 2


def test_a_cache_that_cannot_be_written_is_no_fault_and_leaves_nothing(tmp_path, trace, monkeypatch):
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    monkeypatch.setattr(parsed_traces, "WORTH_S", 0.0)

    assert read_cached(FoundTrace(path=trace, source=Counting().source), PLAIN).trace is not None
    assert blocked.read_text() == "a file where the folder should be"


def test_the_trace_looked_at_longest_ago_makes_room(cache, tmp_path, monkeypatch):
    counting = Counting()
    files = [tmp_path / f"{name}.json" for name in "ab"]
    for file in files:
        file.write_text(file.name)
    read_cached(FoundTrace(path=files[0], source=counting.source), PLAIN)
    kept = next((cache / "slowstep" / "traces").iterdir())
    monkeypatch.setattr(parsed_traces, "MOST_BYTES", sum(file.stat().st_size for file in kept.iterdir()) + 10)

    read_cached(FoundTrace(path=files[1], source=counting.source), PLAIN)

    assert not kept.exists()
    assert len(list((cache / "slowstep" / "traces").iterdir())) == 1


def test_facts_of_another_version_are_read_anew(cache, trace):
    counting = Counting()
    read_cached(FoundTrace(path=trace, source=counting.source), PLAIN)
    for file in cache.rglob("facts.json"):
        file.write_text('{"trace": {"recorded": [], "files": [], "colour": "red"}, "source": "made"}')

    assert read_cached(FoundTrace(path=trace, source=counting.source), PLAIN).trace is not None
    assert counting.reads == 2


def test_the_parts_of_a_source_are_a_part_of_the_key(trace, tmp_path, monkeypatch):
    part = tmp_path / "slowstep" / "sources" / "_kineto" / "reader.py"
    part.parent.mkdir(parents=True)
    part.write_text("")
    monkeypatch.setattr(parsed_traces.slowstep, "__path__", [str(tmp_path / "slowstep")])
    before = parsed_traces._folder(FoundTrace(path=trace, source=Counting().source))

    os.utime(part, (1, 1))

    assert parsed_traces._folder(FoundTrace(path=trace, source=Counting().source)) != before


def test_each_process_of_a_file_is_kept_apart(cache, trace):
    counting = Counting()

    for pid in (1, 2, 1):
        read_cached(FoundTrace(path=trace, source=counting.source, pid=pid), PLAIN)

    assert counting.reads == 2
