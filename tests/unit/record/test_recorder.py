"""The recorder's life: lazy files, health, full disks, forks, the end."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from launching import on_small_disk
from recorded import make_folder, only, processes
from slowstep.health import HealthKind
from slowstep.record.recorder import Recorder
from slowstep.record.writing import format as contract
from slowstep.record.writing.format import FORMAT_VERSION, UPDATE, WAIT
from slowstep.record.writing.threads import Iterator as KnownIterator

Make = Callable[..., Recorder]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Recorder] = []

    def make(**options: object) -> Recorder:
        folder = tmp_path / "recording"
        path = str(folder) if folder.exists() else make_folder(folder)
        made.append(Recorder(path, **{"level": 0} | options))
        return made[-1]

    yield make
    for recorder in made:
        recorder.stop("test")


def control(recorder: Recorder) -> bytes:
    return (Path(recorder.folder) / "control").read_bytes()


def test_without_an_event_nothing_is_written(make: Make) -> None:
    recorder = make()

    recorder.note({"kind": "hook"})
    recorder.health(HealthKind("doubt", "notice", "look twice"))
    recorder.stop("exit")

    assert processes(recorder.folder) == []


def test_the_first_event_opens_the_files(make: Make) -> None:
    recorder = make()
    recorder.introduce({"kind": "hook", "name": "one", "state": "on", "reason": None})

    recorder.event(UPDATE, 1, 2)
    recorder.stop("exit")

    process = only(recorder.folder)
    assert [note["kind"] for note in process.notes][:2] == ["process", "hook"]
    assert [note["kind"] for note in process.notes][-2:] == ["cost", "end"]
    first = process.noted("process")[0]
    assert (first["pid"], first["ppid"], first["role"], first["format"]) == (os.getpid(), os.getppid(), "trainer", FORMAT_VERSION)
    assert first["cores_allowed"] >= 1
    assert process.noted("cost")[-1]["event_ns"] > 0
    assert process.stem.name == f"{os.getpid()}-{first['started_ns']:x}"


@pytest.mark.parametrize(("measured", "expected"), [([9000, 2000, 1], 2000), ([2000, 9000, 1], 2000)])
def test_the_cost_of_an_event_is_measured_again_once_the_process_has_started_up(
    make: Make, monkeypatch: pytest.MonkeyPatch, measured: list[int], expected: int
) -> None:
    left = iter(measured)
    monkeypatch.setattr("slowstep.record.writing.cost.event_ns", lambda local: next(left))
    recorder = make()

    recorder.event(UPDATE, 1, 2)
    for _ in range(5):
        recorder._account()
    recorder.stop("exit")

    assert only(recorder.folder).noted("cost")[-1]["event_ns"] == expected
    assert list(left) == [1]


def test_what_hooks_set_up_is_spent_once(make: Make) -> None:
    recorder = make()
    recorder.event(UPDATE, 1, 2)
    recorder.once_ns = 7_000_000_000
    recorder.stop("exit")

    cost = only(recorder.folder).noted("cost")[-1]
    assert cost["sampler_cpu_ns"] >= cost["once_cpu_ns"] >= 7_000_000_000
    assert cost["spent_ns"] == 0


def test_both_files_are_the_owners_alone(make: Make) -> None:
    recorder = make()

    recorder.event(UPDATE, 1, 2)

    stem = only(recorder.folder).stem
    assert [stem.with_suffix(suffix).stat().st_mode & 0o777 for suffix in (".rec", ".jsonl")] == [0o600, 0o600]


def test_a_folder_without_a_control_page_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="control"):
        Recorder(str(tmp_path))


def test_a_text_is_written_once_and_before_any_event(make: Make) -> None:
    recorder = make()

    first, second, other = recorder.text_id("save"), recorder.text_id("save"), recorder.text_id("load")
    recorder.stop("exit")

    assert first == second != other
    texts = {note["id"]: note["text"] for note in only(recorder.folder).noted("text")}
    assert texts == {first: "save", other: "load"}


def test_health_counts_add_up(make: Make) -> None:
    recorder = make()
    recorder.event(UPDATE, 1, 2)

    for _ in range(3):
        recorder.health(HealthKind("doubt", "notice", "look {often}"), often="twice")
    recorder.health(HealthKind("loss", "data_loss", ""), 7)
    recorder.stop("exit")

    assert only(recorder.folder).health == {"doubt": 3, "loss": 7}
    assert [note["remedy"] for note in only(recorder.folder).noted("health")] == ["look twice", "", "look twice"]


def test_a_fault_of_ours_is_counted_and_not_raised(make: Make) -> None:
    recorder = make()
    recorder.event(UPDATE, 1, 2)

    recorder.event(UPDATE, "not a time", 2)
    recorder.stop("exit")

    assert only(recorder.folder).health == {"recorder-fault": 1}


def test_what_a_signal_handler_raises_inside_us_reaches_the_script(make: Make) -> None:
    class Timeout(Exception):
        pass

    def handler(number: int, frame: object) -> None:
        raise Timeout

    recorder = make()
    place = recorder._writer.open_files

    def interrupted() -> bool:
        os.kill(os.getpid(), signal.SIGUSR1)
        return place()

    recorder._writer.open_files = interrupted
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(Timeout):
            recorder.event(UPDATE, 1, 2)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_checkpoint_in_a_signal_handler_in_the_middle_of_our_work_does_not_hang(make: Make) -> None:
    recorder = make()
    open_files = recorder._writer.open_files

    def interrupted() -> bool:
        recorder.event(WAIT, 1, 2)
        return open_files()

    recorder._writer.open_files = interrupted
    recorder.event(UPDATE, 1, 2)
    recorder.stop("exit")

    assert only(recorder.folder).health == {"lost-events": 1}


def test_a_disk_that_is_full_ends_the_recording_and_is_said(make: Make) -> None:
    reserve = Mock(wraps=os.posix_fallocate)
    recorder = make(reserve=reserve)
    recorder.event(WAIT, 1, 2)
    reserve.side_effect = OSError(errno.ENOSPC, "No space left on device")

    for number in range(10_000):
        recorder.event(UPDATE, number, number)
    recorder.stop("exit")

    process = only(recorder.folder)
    assert process.health == {"disk-full": 1}
    assert process.noted("end")[0]["reason"] == "disk full"
    assert len(process.of("UPDATE")) > 5000
    assert not recorder.live[0]


def test_a_folder_that_is_gone_ends_the_recording_in_silence(make: Make, tmp_path: Path) -> None:
    recorder = make()
    (tmp_path / "recording").rename(tmp_path / "moved")

    recorder.event(UPDATE, 1, 2)

    assert not recorder.live[0]
    assert processes(tmp_path / "moved") == []


def test_files_that_the_script_closes_under_us_are_not_written_to(make: Make, tmp_path: Path) -> None:
    recorder = make()
    recorder.event(UPDATE, 1, 2)
    handle = recorder._notes._file._handle
    os.close(handle)
    theirs = os.open(tmp_path / "theirs", os.O_RDWR | os.O_CREAT)
    assert theirs == handle

    recorder.note({"kind": "hook"})
    recorder.stop("exit")

    assert (tmp_path / "theirs").read_bytes() == b""
    assert len(only(recorder.folder).noted("hook")) == 1
    os.close(theirs)


def test_so_many_updates_end_the_recording_of_all(make: Make) -> None:
    recorder = make(steps=3)

    for count in (1, 2, 3):
        assert recorder.live[0]
        recorder.event(UPDATE, count, count)
        recorder.updated(count, count)

    assert not recorder.live[0]
    page = control(recorder)
    assert (page[contract.CONTROL_RECORDING], page[contract.CONTROL_REASON]) == (0, contract.STOPPED_BY_STEPS)
    assert int.from_bytes(page[contract.CONTROL_UPDATES :][:8], "little") == 3
    assert int.from_bytes(page[contract.CONTROL_FIRST_UPDATE :][:8], "little") == 1
    assert int.from_bytes(page[contract.CONTROL_PID :][:8], "little") == os.getpid()
    assert only(recorder.folder).noted("end")[0]["reason"] == "steps"


def test_time_is_counted_from_the_first_update(make: Make) -> None:
    recorder = make(seconds=2.0)
    recorder.event(UPDATE, 1, 2)

    recorder.updated(1, 5_000_000_000)
    recorder.updated(2, 6_900_000_000)
    assert recorder.live[0]
    recorder.updated(3, 7_000_000_000)

    assert not recorder.live[0]
    assert control(recorder)[contract.CONTROL_REASON] == contract.STOPPED_BY_TIME


def test_a_recording_that_somebody_else_ended_ends_here(make: Make) -> None:
    recorder = make(level=1)
    undone: list[None] = []
    recorder.undos.append(lambda: undone.append(None))
    recorder.event(UPDATE, 1, 2)

    recorder.page.stop(contract.STOPPED_BY_LAUNCHER)
    deadline = time.monotonic() + 20
    while not undone and time.monotonic() < deadline:
        time.sleep(0.01)

    assert (recorder.live[0], len(undone)) == (False, 1)
    assert only(recorder.folder).noted("end")[0]["reason"] == "launcher"


def test_hooks_of_an_optimizer_are_not_taken_away_by_another_thread(make: Make) -> None:
    recorder = make()
    undone: list[None] = []
    recorder.undos.append(lambda: undone.append(None))
    recorder.trains(recorder.local.me)

    other = threading.Thread(target=recorder.leave)
    other.start()
    other.join()
    assert undone == []
    recorder.leave()

    assert undone == [None]


def test_steps_that_other_threads_have_not_written_yet_are_not_lost(make: Make) -> None:
    recorder = make()
    recorder.event(WAIT, 1, 2)

    def train(began: int) -> None:
        me = recorder.local.me
        recorder.trains(me)
        me.ended.append(((began, began + 5, KnownIterator(1), 16), (began + 20, began + 50), 3, began + 60, began + 70))

    for began in (100, 200):
        thread = threading.Thread(target=train, args=(began,))
        thread.start()
        thread.join()
    # A thread may have the ident of one that has ended; the third goes on while the recording ends.
    over, go = threading.Event(), threading.Event()
    living = threading.Thread(target=lambda: (train(300), over.set(), go.wait(60)))
    living.start()
    assert over.wait(60)
    recorder.stop("exit")
    go.set()
    living.join()

    assert sorted(record.t0 for record in only(recorder.folder).of("UPDATE")) == [160, 260, 360]


def test_a_forked_child_writes_into_files_of_its_own(make: Make) -> None:
    recorder = make(level=1)
    recorder.event(UPDATE, 1, 2)

    child = os.fork()
    if child == 0:
        recorder.forget()
        recorder.event(UPDATE, 3, 4)
        recorder.stop("exit")
        os._exit(0)
    os.waitpid(child, 0)
    recorder.event(UPDATE, 5, 6)
    recorder.stop("exit")

    parent, forked = processes(recorder.folder)
    assert [record.t0 for record in parent.of("UPDATE")] == [1, 5]
    assert [record.t0 for record in forked.of("UPDATE")] == [3]
    assert forked.noted("process")[0]["pid"] == child


def test_a_forked_child_without_events_writes_nothing(make: Make) -> None:
    recorder = make(level=1)
    recorder.event(UPDATE, 1, 2)

    child = os.fork()
    if child == 0:
        recorder.forget()
        recorder.stop("exit")
        os._exit(0)
    os.waitpid(child, 0)

    assert len(processes(recorder.folder)) == 1


def test_after_the_end_no_thread_is_left(make: Make) -> None:
    recorder = make(level=1)
    recorder.event(UPDATE, 1, 2)

    recorder.stop("exit")

    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("slowstep")] == []


ON_A_SMALL_DISK = """
import os, sys
sys.path.insert(0, {tests!r})
from recorded import make_folder
from slowstep.record.recorder import Recorder
recorder = Recorder(make_folder(__import__("pathlib").Path({folder!r})), level=1)
for number in range(100_000):
    recorder.event(3, number, number)
recorder.stop("exit")
print("survived")
"""


@pytest.mark.slow
def test_a_really_full_disk_does_not_kill_the_training(tmp_path: Path) -> None:
    disk, copy = tmp_path / "disk", tmp_path / "copy"
    script = ON_A_SMALL_DISK.format(tests=str(Path(__file__).parents[2]), folder=str(disk / "recording"))
    command = on_small_disk(disk, "1m", copy, sys.executable, "-c", script)

    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    process = only(copy / "recording")
    found = (done.returncode, done.stdout.split(), process.health, len(process.of("UPDATE")) > 1000)
    assert done.stderr == ""
    assert found == (0, ["survived"], {"disk-full": 1}, True)
