"""Stacks: what is taken, how it is numbered, and that nothing is kept alive."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from slowstep.record.timing.other_threads import running
from slowstep.record.timing.stacks import LARGEST_DEPTH, Sampler, StackTable
from slowstep.record.writing.format import STACK
from slowstep.record.writing.own_frames import is_own

pytestmark = pytest.mark.usefixtures("small_heap")


class Notebook:
    """Keeps notes as the recorder would."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def __call__(self, line: dict[str, Any]) -> None:
        self.lines.append(line)

    def functions(self, stack: int) -> list[str]:
        frames = {line["id"]: line["function"] for line in self.lines if line["kind"] == "frame"}
        (found,) = (line for line in self.lines if line["kind"] == "stack" and line["id"] == stack)
        return [frames[frame] for frame in found["frames"]]


def outer(inner: Callable[[], Any]) -> Any:
    return inner()


def here() -> FrameType:
    return sys._getframe(1)


def number_of(table: StackTable, frame: FrameType) -> int | None:
    return table.stack_id(table.places(frame))


def test_a_stack_names_its_frames_from_the_root_to_the_leaf() -> None:
    notebook = Notebook()

    number = outer(lambda: number_of(StackTable(notebook), here()))

    assert number == 1
    assert [name.rpartition(".")[2] for name in notebook.functions(number)][-2:] == ["outer", "<lambda>"]


def test_the_same_place_has_the_same_number_and_is_written_once() -> None:
    notebook = Notebook()
    table = StackTable(notebook)

    numbers = [number_of(table, frame) for frame in [here()] * 3]

    assert numbers == [1, 1, 1]
    assert sum(line["kind"] == "stack" for line in notebook.lines) == 1


def test_another_line_of_a_function_is_another_stack() -> None:
    table = StackTable(Notebook())

    first = number_of(table, here())
    second = number_of(table, here())

    assert first != second


def test_a_frame_says_where_its_function_begins() -> None:
    notebook = Notebook()

    number_of(StackTable(notebook), here())

    (frame,) = (
        line for line in notebook.lines if line["kind"] == "frame" and line["function"] == "test_a_frame_says_where_its_function_begins"
    )
    assert frame["file"] == __file__
    assert frame["line"] == frame["first_line"] + 3


def test_frames_of_slowstep_are_left_out() -> None:
    notebook = Notebook()
    table = StackTable(notebook)
    seen: list[int | None] = []

    # `_call_once` of ours calls back into this file.
    from slowstep.record.patch import all_of

    all_of([lambda: seen.append(number_of(table, here()))])()

    assert seen == [1]
    assert all(not is_own(line["file"]) for line in notebook.lines if line["kind"] == "frame")


def test_a_runaway_recursion_is_cut_at_the_root() -> None:
    notebook = Notebook()
    table = StackTable(notebook)

    def deeper(levels: int) -> int | None:
        return deeper(levels - 1) if levels else number_of(table, here())

    number = deeper(LARGEST_DEPTH * 2)

    assert number is not None
    assert len(notebook.functions(number)) == LARGEST_DEPTH


def test_no_frame_and_none_of_its_objects_is_kept_alive() -> None:
    class Thing:
        pass

    def hold() -> weakref.ref[Thing]:
        thing = Thing()
        number_of(table, here())
        return weakref.ref(thing)

    table = StackTable(Notebook())
    kept = hold()
    gc.collect()

    assert kept() is None


class Held:
    """What a function of the script holds while it runs."""


def test_what_a_function_held_while_stacks_were_taken_is_freed_as_it_returns(events: list[tuple[Any, ...]]) -> None:
    arrived, leave, returned, end = (threading.Event() for _ in range(4))
    refs: list[weakref.ref[Held]] = []

    def hold() -> None:
        held = Held()
        refs.append(weakref.ref(held))
        arrived.set()
        leave.wait(60)

    def work() -> None:
        hold()
        returned.set()
        end.wait(60)

    thread = threading.Thread(target=work)
    gc.disable()
    try:
        thread.start()
        assert arrived.wait(60)
        assert thread.ident is not None
        sampler = make_sampler(events, Notebook(), {thread.ident: 77})
        sampler.take(0)
        sampler.start()
        while len(events) < 3:
            time.sleep(0.01)
        leave.set()
        assert returned.wait(60)
        assert refs[0]() is None
    finally:
        gc.enable()
        end.set()
        sampler.stop()
        thread.join()


def test_looking_at_threads_leaves_no_circles(events: list[tuple[Any, ...]]) -> None:
    with running_thread() as thread:
        assert thread.ident is not None
        sampler = make_sampler(events, Notebook(), {thread.ident: 77})
        gc.collect()
        gc.disable()
        try:
            for _ in range(100):
                sampler.take(0)
                running([thread.ident])
            assert gc.collect() == 0
        finally:
            gc.enable()


@contextmanager
def running_thread() -> Iterator[threading.Thread]:
    """A thread that stands in `parked` until the end."""
    leave, arrived = threading.Event(), threading.Event()

    def parked() -> None:
        arrived.set()
        leave.wait()

    thread = threading.Thread(target=parked)
    thread.start()
    arrived.wait()
    try:
        yield thread
    finally:
        leave.set()
        thread.join()


@pytest.fixture
def events() -> list[tuple[Any, ...]]:
    return []


def make_sampler(events: list[tuple[Any, ...]], notebook: Notebook, watched: dict[int, int], chores: Any = None) -> Sampler:
    def event(kind: int, t0: int, t1: int, a: int, b: int, c: int, *, thread: int, flags: int) -> None:
        events.append((kind, t0, a, b, c, thread))

    def fault(error: Exception) -> None:
        raise error

    written: Any = event
    return Sampler(event=written, note=notebook, watched=watched, chores=chores or (lambda: None), fault=fault, takes_stacks=True)


def test_a_stack_is_weighted_by_the_time_since_the_last(events: list[tuple[Any, ...]]) -> None:
    notebook = Notebook()
    with running_thread() as thread:
        assert thread.ident is not None
        sampler = make_sampler(events, notebook, {thread.ident: 77})

        for planned_ns in (0, 0, 0):
            sampler.take(planned_ns)

    first, second = events
    assert {first[0], second[0]} == {STACK}
    assert second[3] == second[1] - first[1]
    assert (first[5], second[5]) == (77, 77)
    assert any("parked" in name for name in notebook.functions(first[2]))


def test_lateness_is_how_long_after_its_time_a_stack_was_taken(events: list[tuple[Any, ...]]) -> None:
    with running_thread() as thread:
        assert thread.ident is not None
        sampler = make_sampler(events, Notebook(), {thread.ident: 77})

        sampler.take(0)
        sampler.take(5)

    assert [event[4] for event in events] == [event[1] - 5 for event in events]


def test_a_thread_that_has_ended_is_watched_no_more(events: list[tuple[Any, ...]]) -> None:
    with running_thread() as thread:
        assert thread.ident is not None
        watched = {thread.ident: 77}

    make_sampler(events, Notebook(), watched).take(0)

    assert (watched, events) == ({}, [])


def test_the_thread_does_its_chores_until_it_is_stopped(events: list[tuple[Any, ...]]) -> None:
    done = threading.Event()
    sampler = make_sampler(events, Notebook(), {}, chores=done.set)

    sampler.start()
    assert done.wait(20)
    sampler.stop()

    assert "slowstep-stacks" not in [thread.name for thread in threading.enumerate()]
    assert sampler.cpu_ns > 0


def test_no_file_stays_open_once_the_sampler_is_stopped(events: list[tuple[Any, ...]]) -> None:
    before = set(os.listdir("/proc/self/fd"))
    with running_thread() as thread:
        assert thread.ident is not None
        sampler = make_sampler(events, Notebook(), {thread.ident: thread.native_id or 0})
        sampler.start()
        until = time.monotonic() + 20
        while len(events) < 5 and time.monotonic() < until:
            time.sleep(0.01)
        while_on = set(os.listdir("/proc/self/fd"))
        sampler.stop()

        assert while_on - before
        assert set(os.listdir("/proc/self/fd")) <= before


def test_stacks_taken_long_after_their_time_are_counted(events: list[tuple[Any, ...]]) -> None:
    with running_thread() as thread:
        assert thread.ident is not None
        sampler = make_sampler(events, Notebook(), {thread.ident: 77})

        sampler.take(0)
        sampler.take(0)
        sampler.take(time.monotonic_ns())

    assert (len(events), sampler.late) == (2, 1)


def test_what_new_code_costs_above_the_usual_is_spent_once(events: list[tuple[Any, ...]]) -> None:
    sampler = make_sampler(events, Notebook(), {})

    for cpu_ns, new in ((5000, True), (5100, False), (5500, True), (5600, False)):
        sampler._account(cpu_ns, new=new)

    assert (sampler.cpu_ns, sampler.once_ns) == (5600, 5000 + 300)


def test_a_thread_in_new_code_costs_something_once(events: list[tuple[Any, ...]]) -> None:
    with running_thread() as thread:
        assert thread.ident is not None
        sampler = make_sampler(events, Notebook(), {thread.ident: 77})
        sampler.start()
        while len(events) < 3:
            time.sleep(0.01)
        sampler.stop()

    assert 0 < sampler.once_ns < sampler.cpu_ns
