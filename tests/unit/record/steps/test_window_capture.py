"""A capture by a profiler that any thread can end: what becomes of it, and that nothing of it reaches the training."""

from __future__ import annotations

import json
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from recorded import make_folder
from slowstep.record.recorder import Recorder
from slowstep.record.steps import window_capture
from slowstep.record.steps.standing_in import StandIn
from slowstep.record.steps.window_capture import WindowCapture


class FakeProfiler:
    """Notes what it is asked for; `fails` names what raises, and `ends` is waited for before it ends."""

    name = "fake"

    def __init__(self) -> None:
        self.calls: list[object] = []
        self.fails: str | None = None
        self.refuses: str | None = None
        self.ends = threading.Event()
        self.ends.set()
        self.make_way = None

    def _call(self, name, *more):
        self.calls.append((name, *more))
        if self.fails == name:
            raise RuntimeError("no")

    def refusal(self):
        return self.refuses

    def start(self, scratch):
        self._call("start")
        Path(scratch).mkdir()

    def guard(self, make_way):
        self.make_way = make_way
        return lambda: self.calls.append(("unguarded",))

    @contextmanager
    def step(self, number):
        self._call("step", number)
        yield
        self._call("stepped", number)

    def stop(self, *, keep):
        self.ends.wait(10)
        self._call("stop", keep)
        return b"noted" if keep else b""


@pytest.fixture
def profiler():
    return FakeProfiler()


@pytest.fixture
def capture(tmp_path, profiler):
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    recorder.ensure_open()
    yield WindowCapture(recorder, profiler, 3, 4)
    profiler.ends.set()
    recorder.stop("exit")


def noted(capture) -> list[dict]:
    lines = [line for path in Path(capture._recorder.folder).glob("*.jsonl") for line in path.read_text().splitlines()]
    return [note for line in lines if (note := json.loads(line))["kind"] == "capture"]


def left_behind(capture) -> list[str]:
    return [path.name for path in Path(capture._recorder.folder).glob("capture*")]


def train(capture, last=6):
    for updates in range(1, last + 1):
        capture.updated(updates)


def test_the_steps_that_are_asked_for_are_marked_and_kept(capture, profiler):
    capture.ask()
    train(capture)

    assert profiler.calls == [("start",), ("step", 3), ("stepped", 3), ("step", 4), ("stepped", 4), ("stop", True), ("unguarded",)]
    asked, taken = noted(capture)
    assert (asked["state"], taken["state"], taken["profiler"], taken["first"], taken["last"]) == ("asked", "taken", "fake", 3, 4)
    assert left_behind(capture) == [taken["file"]]
    assert (Path(capture._recorder.folder) / taken["file"]).read_bytes() == b"noted"


def test_where_the_framework_refuses_nothing_is_started(capture, profiler):
    profiler.refuses = "one is on"

    train(capture)

    assert profiler.calls == []
    assert [(note["state"], note["reason"]) for note in noted(capture)] == [("refused", "one is on")]


def test_beside_a_profiler_of_pythons_nothing_is_started(capture, profiler):
    sys.setprofile(lambda *_: None)
    try:
        train(capture)
    finally:
        sys.setprofile(None)

    assert profiler.calls == []
    assert [note["state"] for note in noted(capture)] == ["refused"]


@pytest.mark.parametrize("fails", ["start", "step", "stepped", "stop"])
def test_whatever_it_raises_ends_the_capture_alone(capture, profiler, fails):
    profiler.fails = fails

    train(capture)

    assert [note["state"] for note in noted(capture)] == ["failed"]
    assert left_behind(capture) == []
    assert (("stop", False) in profiler.calls) == (fails in ("step", "stepped"))
    assert not capture.near(3)


def test_one_that_does_not_end_is_waited_for_no_longer_than_patience_lasts(capture, profiler, monkeypatch):
    monkeypatch.setattr(window_capture, "PATIENCE_S", 0.05)
    profiler.ends.clear()

    train(capture)

    (note,) = noted(capture)
    assert note["state"] == "failed"
    assert "file" not in note


def test_where_no_thread_can_be_started_any_more_it_is_ended_all_the_same(capture, profiler, monkeypatch):
    train(capture, last=2)

    class AtTheEnd(threading.Thread):
        def start(self):
            raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(window_capture.threading, "Thread", AtTheEnd)
    capture.abandon()

    assert ("stop", False) in profiler.calls
    assert [note["state"] for note in noted(capture)] == ["failed"]


def test_of_a_file_that_cannot_be_written_nothing_is_left(capture, profiler, monkeypatch):
    def full(path, mode):
        Path(path).write_bytes(b"no")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(window_capture, "open", full, raising=False)

    train(capture)

    assert left_behind(capture) == []
    assert [note["state"] for note in noted(capture)] == ["failed"]


def test_steps_that_take_too_long_are_given_up_while_they_last(capture, profiler, monkeypatch):
    monkeypatch.setattr(window_capture, "LONGEST_S", 0.05)

    train(capture, last=2)
    capture._timer.join(10)
    train(capture)

    assert ("stop", False) in profiler.calls
    assert [note["state"] for note in noted(capture)] == ["failed"]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_it_has_ended_before_a_profile_of_the_scripts_own_begins(capture, profiler, elsewhere):
    train(capture, last=2)

    if elsewhere:
        thread = threading.Thread(target=profiler.make_way)
        thread.start()
        thread.join()
    else:
        profiler.make_way()

    assert profiler.calls[-2:] == [("stop", False), ("unguarded",)]
    train(capture)
    assert [note["state"] for note in noted(capture)] == ["failed"]
    assert left_behind(capture) == []


def test_updates_of_another_thread_are_not_marked(capture, profiler):
    train(capture, last=2)

    thread = threading.Thread(target=capture.updated, args=(3,))
    thread.start()
    thread.join()

    assert profiler.calls == [("start",), ("step", 3)]


def test_a_recording_that_ends_within_it_keeps_nothing(capture, profiler):
    train(capture, last=3)

    capture.abandon()
    capture.abandon()

    assert [call for call in profiler.calls if call[0] == "stop"] == [("stop", False)]
    (note,) = noted(capture)
    assert (note["state"], note["reason"]) == ("failed", "the recording ended within it, when 1 of its steps 3 to 4 were done")


def test_a_forked_child_leaves_it_to_its_parent(capture, profiler):
    train(capture, last=2)

    capture._forget()
    train(capture)
    capture.abandon()

    assert not [call for call in profiler.calls if call[0] == "stop"]


def test_who_stands_in_for_a_module_tells_of_what_is_watched_alone():
    told = []
    stands_in = StandIn(json, "loads", lambda: told.append(True))

    assert stands_in.dumps is json.dumps
    assert told == []
    assert stands_in.loads is json.loads
    assert told == [True]
