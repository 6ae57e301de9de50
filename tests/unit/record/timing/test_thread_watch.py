"""Which Python threads are marked beside the training's: those that compute, by what the kernel says."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from slowstep.record.timing import thread_watch
from slowstep.record.timing.thread_watch import ThreadWatch
from slowstep.record.writing.format import CPU


class Taken:
    """What was marked, noted and watched."""

    def __init__(self, *, most_watched: int = 8) -> None:
        self.marks: list[tuple[int, ...]] = []
        self.notes: list[dict[str, object]] = []
        self.watched: dict[int, int] = {}
        self.updaters: set[int] = set()
        self.threads = ThreadWatch(self._event, self.notes.append, self.watched, self.updaters, most_watched=most_watched)

    def _event(self, kind: int, t0: int, t1: int, a: int, b: int, *, thread: int) -> None:
        self.marks.append((kind, t0, a, b, thread))

    def look_twice(self) -> None:
        """Two looks with a quarter of a second between them."""
        self.threads.look(time.monotonic_ns())
        time.sleep(0.25)
        self.threads.look(time.monotonic_ns())


@contextmanager
def running(name: str, *, busy: bool) -> Iterator[threading.Thread]:
    """A thread that computes, or only waits, until it is left."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(0.0 if busy else 5.0):
            sum(range(1000))

    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        ended.set()
        thread.join(5)


def test_a_thread_that_computes_is_named_marked_and_watched():
    taken = Taken()
    with running("prefetch", busy=True) as thread:
        taken.look_twice()

    marks = [mark for mark in taken.marks if mark[4] == thread.native_id]
    assert [mark[0] for mark in marks] == [CPU, CPU]
    assert 0 <= marks[0][2] < marks[1][2] < 10_000_000_000
    assert {"kind": "thread", "id": thread.native_id, "name": "prefetch"} in taken.notes
    assert taken.watched[thread.ident] == thread.native_id


@pytest.mark.parametrize(("name", "busy"), [("waiting", False), ("slowstep-stacks", True)])
def test_threads_that_wait_and_our_own_are_left_out(name, busy):
    taken = Taken()
    with running(name, busy=busy) as thread:
        taken.look_twice()

    assert thread.native_id not in [mark[4] for mark in taken.marks]
    assert thread.ident not in taken.watched


def test_a_thread_that_trains_marks_itself():
    taken = Taken()
    with running("training", busy=True) as thread:
        taken.updaters.add(thread.ident)
        taken.look_twice()

    assert thread.native_id not in [mark[4] for mark in taken.marks]


def test_of_many_threads_each_has_its_turn(monkeypatch):
    looked: list[int] = []

    def used(thread: int) -> tuple[int, int]:
        looked.append(thread)
        return 0, 0

    taken = Taken()
    many = {ident: threading.Thread(name=f"pool-{ident}") for ident in range(40)}
    for ident, thread in many.items():
        thread._native_id = 1000 + ident  # type: ignore[attr-defined]
    monkeypatch.setattr(threading, "_active", many)
    monkeypatch.setattr(thread_watch, "_used_ns", used)
    for at_ns in range(3):
        taken.threads.look(at_ns)

    assert set(looked) == {1000 + ident for ident in many}
    assert len(looked) == 3 * 16


def test_no_more_stacks_are_taken_than_allowed():
    taken = Taken(most_watched=1)
    taken.watched[1] = 1
    with running("prefetch", busy=True):
        taken.look_twice()

    assert taken.watched == {1: 1}


def test_a_thread_that_has_ended_meanwhile_is_no_fault(monkeypatch):
    taken = Taken()
    gone = threading.Thread(name="gone")
    gone._native_id = 2**22 + 1  # type: ignore[attr-defined]
    monkeypatch.setattr(threading, "_active", {77: gone, 78: threading.Thread(name="not started")})

    taken.look_twice()

    assert taken.marks == []


def test_threads_may_begin_while_they_are_looked_for(monkeypatch):
    known = dict.fromkeys(range(50), threading.current_thread())
    monkeypatch.setattr(threading, "_active", known)
    before = gc.get_threshold()

    def begin(phase: str, info: dict[str, int]) -> None:
        known[len(known)] = threading.current_thread()

    gc.callbacks.append(begin)
    gc.set_threshold(3, 1, 1)
    try:
        Taken().threads.look(time.monotonic_ns())
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(begin)

    assert len(known) > 50
