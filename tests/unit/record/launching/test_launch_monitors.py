from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from slowstep.errors import DiscoveryError
from slowstep.record.launching import watch
from slowstep.record.launching.journal import Journal
from slowstep.record.launching.watch import MonitorWatch
from slowstep.record.monitors import Absent, Monitor, MonitoredCommand, Reader, Reading, cpu
from slowstep.record.writing import format as contract
from slowstep.registry import discover

needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc")
BURN = "import time\nwhile time.process_time() < 0.3: pass\nprint('burnt', flush=True)\ninput()"


def records(folder: Path) -> list[tuple[int, ...]]:
    return list(contract.RECORD.iter_unpack((folder / "launcher.rec").read_bytes()))


def notes(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "launcher.jsonl").read_text().splitlines()]


def test_all_monitors_are_found() -> None:
    found = discover("slowstep.record.monitors", "MONITOR")

    assert {"affinity", "cost", "cpu", "disk", "gpu", "group-memory", "machine-memory", "network", "pressure"} <= set(found)
    assert {"run-delay", "throttling", "tree-io", "tree-memory"} <= set(found)
    assert all(isinstance(monitor, Monitor) for monitor in found.values())


@pytest.mark.slow
@needs_proc
def test_the_time_of_a_child_that_has_ended_is_kept() -> None:
    shell = f"{sys.executable} -c 'import time\nwhile time.process_time() < 0.3: pass'; echo burnt; read _"
    with subprocess.Popen(["sh", "-c", shell], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        reader = cpu.open_cpu(MonitoredCommand(child.pid))
        assert child.stdout.readline() == b"burnt\n"

        _, tree_ns, busy_ns, _, _ = reader.read(time.monotonic_ns())[0]

        reader.close()
        child.stdin.close()
    assert tree_ns >= 250_000_000
    assert busy_ns >= tree_ns


@needs_proc
def test_readings_never_fall() -> None:
    with subprocess.Popen([sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        reader = cpu.open_cpu(MonitoredCommand(child.pid))
        child.stdout.readline()
        before = reader.read(time.monotonic_ns())[0]
        child.stdin.close()
        child.wait(timeout=20)

        after = reader.read(time.monotonic_ns())[0]

        reader.close()
    assert all(new >= old for old, new in zip(before, after, strict=True))


def test_the_heading_of_the_machines_line_is_understood() -> None:
    assert cpu.machine_ticks(b"cpu  100 10 20 5000 70 3 4 9 50 0\ncpu0 1 2") == (137, 5000, 70, 9)


@needs_proc
def test_a_watch_writes_readings_and_clocks(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path))

    MonitorWatch(journal, os.getpid()).stop()

    kinds = {record[-1] for record in records(tmp_path)}
    assert {contract.READING_CPU, contract.READING_COST} <= kinds
    assert [note for note in notes(tmp_path) if note["kind"] == "health"] == []
    journal.close()


def test_a_watch_can_be_ended_from_within(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path))
    made = threading.Event()

    def end() -> None:
        made.wait(10)
        beside.stop()

    beside = MonitorWatch(journal, os.getpid(), end)
    made.set()
    beside._thread.join(10)

    assert not beside._thread.is_alive()
    beside.stop()
    journal.close()
    assert contract.READING_CPU in {record[-1] for record in records(tmp_path)}


class Broken(Reader):
    def read(self, now_ns: int) -> list[Reading]:
        raise ZeroDivisionError("broken")


def test_a_monitor_that_fails_is_left_out_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(place: MonitoredCommand) -> Reader:
        raise Absent("no such file")

    def usual(place: MonitoredCommand) -> Reader:
        raise Absent("no device", usual=True)

    def fails(place: MonitoredCommand) -> Reader:
        raise ZeroDivisionError("cannot begin")

    found = {
        "a": Monitor(name="a", open=lambda place: Broken()),
        "b": Monitor(name="b", open=absent),
        "c": Monitor(name="c", open=usual),
        "d": Monitor(name="d", open=fails),
    }
    monkeypatch.setattr(watch, "discover_whole", lambda *_: (found, {"e": DiscoveryError("e.py cannot be imported")}))
    journal = Journal(str(tmp_path))

    MonitorWatch(journal, os.getpid()).stop()
    journal.close()

    assert {record[-1] for record in records(tmp_path)} <= {contract.CLOCK}
    health = [note for note in notes(tmp_path) if note["kind"] == "health"]
    assert sorted((note["name"], note["severity"]) for note in health) == [(f"monitor:{name}", "notice") for name in "abde"]
    assert [note["monitor"] for note in notes(tmp_path) if note["kind"] == "absent"] == ["c"]
    assert "ZeroDivisionError" in str(notes(tmp_path))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_counted_and_stops_nothing(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path))
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, journal._notes)
    os.dup2(full, journal._records)
    os.close(full)

    journal.note("run", name="x")
    journal.clock()
    journal.clock()

    assert journal.lost == 3
    journal.close()
