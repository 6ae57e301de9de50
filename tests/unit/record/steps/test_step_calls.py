"""Timing calls in gaps and bodies, and counting lines: what is written, and that nothing stays behind."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

import pytest

from slowstep.record.framework import NO_FRAMEWORK, Framework
from slowstep.record.recorder import now
from slowstep.record.steps.step_calls import FIRST, StepCalls
from slowstep.record.timing import line_counts
from slowstep.record.timing.call_times import CallTimes, slowdown
from slowstep.record.timing.line_counts import LineCounts, called_in_libraries
from slowstep.record.timing.turns import UpdateTurn, turn_of
from slowstep.record.writing.format import MODES
from slowstep.record.writing.threads import PerThread

Notes = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    before = sys.getprofile(), sys.gettrace()
    sys.setprofile(None)
    sys.settrace(None)
    yield
    left = sys.getprofile(), sys.gettrace()
    sys.setprofile(before[0])
    sys.settrace(before[1])
    assert left == (None, None)


def log_results() -> None:
    print("x" * 10, end="", file=Sink())


class Sink:
    def write(self, text: str) -> int:
        return len(text)


def loop_over_pixels() -> float:
    total = 0.0
    for pixel in range(2000):
        total += pixel
    return total


def multiply() -> int:
    return sum(range(100_000))


class Compiled(Framework):
    """One that runs compiled code."""

    def has_compiled(self) -> bool:
        return True


class Loop:
    """A training of a few lines that calls what the hooks would."""

    def __init__(self, *, compiles: bool = False, level: int = 1) -> None:
        self.notes: Notes = []
        self.events: list[tuple[int, ...]] = []
        self.recorder = SimpleNamespace(
            note=self.notes.append,
            event=lambda *fields: self.events.append(fields),
            level=level,
            live=[True],
            local=PerThread(WeakSet()),
            forgetters=[],
            undos=[],
            call_timers=[],
        )
        self.me = self.recorder.local.me
        self.me.waits = 1
        self.calls = StepCalls(self.recorder, Compiled() if compiles else NO_FRAMEWORK)

    def receive(self) -> None:
        if self.me.when_received is not None:
            self.me.when_received(self.me)

    def step(self, body: Callable[[], object] = loop_over_pixels, gap: Callable[[], object] = log_results, updates: int = 1) -> None:
        body()
        for _ in range(updates):
            self.calls.updated(self.me, now())
        gap()
        self.receive()

    def of(self, kind: str) -> Notes:
        return [note for note in self.notes if note["kind"] == "calls" and note["of"] == kind]

    def lines(self) -> Notes:
        return [note for note in self.notes if note["kind"] == "lines"]


def names(note: dict[str, Any]) -> set[str]:
    return {function["function"] for function in note["functions"]}


def test_gaps_and_bodies_are_timed_apart_after_the_first_steps() -> None:
    loop = Loop()

    for _ in range(FIRST - 1):
        loop.step()
    before = list(loop.notes)
    for _ in range(20):
        loop.step()

    assert before == []
    gap, body = loop.of("gap")[-1], loop.of("body")[-1]
    assert "log_results" in names(gap)
    assert "built-in method builtins.print" in names(gap)
    assert "loop_over_pixels" in names(body)
    assert not {"loop_over_pixels"} & names(gap)
    assert not {"log_results"} & names(body)
    assert gap["stretches"] == body["stretches"] == 3
    assert body["wall_ns"] > 0
    assert body["slowdown"] >= 1.0


def test_lines_of_a_function_that_holds_time_are_counted_once_it_is_known() -> None:
    loop = Loop()

    for _ in range(FIRST + 12):
        loop.step()

    (note,) = loop.lines()
    counted = {line["line"] - line["first_line"]: line["count"] for line in note["lines"] if line["function"] == "loop_over_pixels"}
    assert (counted[2], counted[3]) == (2001, 2000)


def test_lines_that_run_while_the_thread_makes_a_batch_are_not_the_bodys() -> None:
    loop = Loop()

    def asks_for_the_next_batch() -> None:
        multiply()
        loop.me.making = loop
        loop_over_pixels()
        loop.me.making = None

    for _ in range(FIRST + 12):
        loop.step(asks_for_the_next_batch)

    assert loop.lines()
    counted = {each["function"] for note in loop.lines() for each in (*note["lines"], *note["functions"])}
    assert counted == {"multiply"}


def test_counting_ends_by_itself_after_some_thousand_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_counts, "MOST_LINES", 500)
    loop = Loop()

    for _ in range(FIRST + 12):
        loop.step()

    (note,) = loop.lines()
    assert not note["complete"]
    assert sum(line["count"] for line in note["lines"]) == 500


def test_a_function_of_one_long_operation_shows_no_line_that_ran_often() -> None:
    loop = Loop()

    for _ in range(FIRST + 12):
        loop.step(body=multiply)

    assert all(line["count"] < 10 for note in loop.lines() for line in note["lines"])


def two_networks(loop: Loop, batches: int, updates: Callable[[int], int] = lambda batch: 2) -> None:
    """A loop in which each network has its own part of the body, and its own update."""
    for batch in range(batches):
        loop.receive()
        loop.me.waits += 1
        for _ in range(updates(batch)):
            loop_over_pixels()
            loop.calls.updated(loop.me, now(), UpdateTurn.APART)
        log_results()
    loop.calls.abandon()


def test_with_two_updates_for_one_batch_bodies_end_with_the_second_and_no_gap_is_timed() -> None:
    loop = Loop()

    two_networks(loop, FIRST + 30)

    assert len(loop.of("gap")) <= 1
    body = loop.of("body")[-1]
    assert body["stretches"] >= 3
    assert {row["calls"] for row in body["functions"] if row["function"] == "loop_over_pixels"} == {2 * body["stretches"]}
    assert "log_results" not in names(body)
    # Those of both parts, until counting ends.
    assert max(row["count"] for row in loop.lines()[0]["lines"]) > 2002


def test_where_the_number_of_updates_changes_no_body_is_timed() -> None:
    loop = Loop()

    two_networks(loop, FIRST + 80, lambda batch: 1 + batch % 2)

    assert loop.of("body") == []
    assert loop.me.when_received is None


def test_where_one_batch_serves_for_all_steps_it_is_not_asked_for_ever() -> None:
    loop = Loop()

    looked_at = []
    for _ in range(FIRST + 600):
        looked_at.append(loop.calls.updated(loop.me, now(), UpdateTurn.APART))
    loop.calls.abandon()

    assert True in looked_at
    assert not any(looked_at[-50:])
    assert loop.me.when_received is None


def test_of_two_loaders_that_are_read_together_updates_are_counted_from_the_second_one_on() -> None:
    loop = Loop()

    for _ in range(FIRST + 30):
        loop.receive()
        loop.receive()
        for _ in range(2):
            loop_over_pixels()
            loop.calls.updated(loop.me, now(), UpdateTurn.APART)
        log_results()
    loop.calls.abandon()

    body = loop.of("body")[-1]
    assert {row["calls"] for row in body["functions"] if row["function"] == "loop_over_pixels"} == {2 * body["stretches"]}


def test_without_a_loader_a_body_ends_with_the_last_of_its_optimizers() -> None:
    loop = Loop()
    loop.me.waits = 0
    for _ in range(FIRST + 20):
        # What is asked for when the first forward begins.
        loop.receive()
        for place in (UpdateTurn.INSIDE, UpdateTurn.LAST):
            loop_over_pixels()
            loop.calls.updated(loop.me, now(), place)
        log_results()
    loop.calls.abandon()

    body = loop.of("body")[-1]
    assert {row["calls"] for row in body["functions"] if row["function"] == "loop_over_pixels"} == {2 * body["stretches"]}
    assert "log_results" not in names(body)
    assert loop.lines()
    # First the loop's own lines, then calls.
    told = [note.get("of", note["kind"]) for note in loop.notes]
    assert told.index("gap_lines") < told.index("gap")
    assert "log_results" in names(loop.of("gap")[-1])


def test_without_a_loader_nothing_is_timed_of_optimizers_that_take_no_turns() -> None:
    loop = Loop()
    loop.me.waits = 0
    for _ in range(FIRST + 20):
        loop.receive()
        loop_over_pixels()
        loop.calls.updated(loop.me, now(), UpdateTurn.APART)
        log_results()

    assert loop.notes == []


def test_what_is_timed_ends_where_optimizers_take_no_turns_any_more() -> None:
    loop = Loop()
    loop.me.waits = 0
    for _ in range(FIRST + 30):
        loop.receive()
        if loop.calls.updated(loop.me, now(), UpdateTurn.LAST) and sys.getprofile() is None:
            loop.receive()
            if sys.getprofile() is not None:
                break

    loop.calls.updated(loop.me, now(), UpdateTurn.INSIDE)
    timed = sys.getprofile()
    loop.calls.updated(loop.me, now(), UpdateTurn.APART)
    written = len(loop.notes)

    assert timed is not None
    assert sys.getprofile() is None
    # Twenty updates of the one and twenty of the other are as many, and yet no step.
    for _ in range(30):
        assert not loop.calls.updated(loop.me, now(), UpdateTurn.LAST)
        loop.receive()
    assert len(loop.notes) == written


@pytest.mark.parametrize(
    ("counts", "place"),
    [
        ((4, 4), UpdateTurn.LAST),
        ((4, 3), UpdateTurn.INSIDE),
        ((4, 3, 4), UpdateTurn.INSIDE),
        ((4, 2), UpdateTurn.APART),
        ((4, 5), UpdateTurn.APART),
        ((4,), UpdateTurn.LAST),
    ],
)
def test_the_place_of_an_update_is_told_by_how_often_each_optimizer_was_called(counts: tuple[int, ...], place: UpdateTurn) -> None:
    assert turn_of(counts[0], counts) is place


def make_batch() -> float:
    return loop_over_pixels()


def unfed(loop: Loop, batches: int, updates: int) -> None:
    """Batches that serve several updates each, of each of which something is made."""
    loop.me.unfed = True
    for _ in range(batches):
        loop.me.waits += 1
        loop.receive()
        for _ in range(updates):
            make_batch()
            # What is asked for when the forward begins.
            loop.receive()
            multiply()
            loop.calls.updated(loop.me, now())
            log_results()
    loop.calls.abandon()


def test_of_batches_that_serve_several_updates_gaps_end_with_the_forward() -> None:
    loop = Loop()

    unfed(loop, FIRST + 10, updates=3)

    assert {"log_results", "make_batch"} <= names(loop.of("gap")[-1])
    body = loop.of("body")[-1]
    assert "make_batch" not in names(body)
    assert {row["calls"] for row in body["functions"] if row["function"] == "multiply"} == {body["stretches"]}
    assert loop.me.unfed


def test_a_training_that_is_fed_after_all_is_timed_as_such() -> None:
    loop = Loop()

    unfed(loop, FIRST + 120, updates=1)

    # Every gap that was looked at held a receipt.
    assert not loop.me.unfed
    assert "log_results" in names(loop.of("gap")[-1])
    assert "make_batch" in names(loop.of("body")[-1])
    assert not [note for note in loop.notes if note["kind"] == "gap_lines"]


def without_loader(loop: Loop, steps: int, *, forwards: bool = True) -> None:
    loop.me.waits = 0
    for _ in range(steps):
        make_batch()
        if forwards:
            loop.receive()
        multiply()
        loop.calls.updated(loop.me, now())


def test_without_a_loader_the_lines_of_one_gap_are_counted() -> None:
    loop = Loop()

    without_loader(loop, FIRST + 20)
    loop.calls.abandon()

    (note,) = [note for note in loop.lines() if note["of"] == "gap"]
    often = [row for row in note["lines"] if row["count"] >= 2000]
    assert {row["function"] for row in often} == {"loop_over_pixels"}
    assert not [row for row in note["lines"] if row["function"] == "multiply"]


def test_a_count_that_meets_no_forward_is_not_kept() -> None:
    loop = Loop()
    for _ in range(FIRST + 20):
        without_loader(loop, 1)
        if loop.calls._gap_counts.running:
            break

    without_loader(loop, 1, forwards=False)
    without_loader(loop, FIRST + 20)
    loop.calls.abandon()

    assert loop.calls._gap_counts.stretches == 1
    assert [note for note in loop.lines() if note["of"] == "gap"] == []


def test_a_body_that_is_timed_asks_for_the_very_next_update() -> None:
    """Of short steps not every update is looked at: a body would hold all until the next one that is."""
    loop, asked = Loop(), False
    for _ in range(FIRST + 20):
        for _ in range(1 if asked else 7):
            loop.receive()
            loop_over_pixels()
        asked = loop.calls.updated(loop.me, now())
        log_results()
    loop.calls.abandon()

    body = loop.of("body")[-1]
    assert {function["calls"] for function in body["functions"] if function["function"] == "loop_over_pixels"} == {body["stretches"]}


def test_updates_without_a_receipt_are_not_looked_at_one_by_one_for_ever_and_are_again_from_the_next_one_on() -> None:
    loop, optimizer = Loop(), SimpleNamespace(due_ns=77)
    loop.me.waits = 0

    asked = [loop.calls.updated(loop.me, now(), UpdateTurn.LAST, optimizer) for _ in range(FIRST + 300)]
    asked.append(loop.calls.updated(loop.me, now(), UpdateTurn.INSIDE, SimpleNamespace(due_ns=0)))
    due_before, bodies = optimizer.due_ns, len(loop.of("body"))
    loop.receive()
    loop_over_pixels()
    loop.calls.updated(loop.me, now(), UpdateTurn.LAST, optimizer)
    for _ in range(10):
        loop.receive()
        loop_over_pixels()
        loop.calls.updated(loop.me, now(), UpdateTurn.LAST, optimizer)
    loop.calls.abandon()

    assert asked[FIRST]
    assert not any(asked[-50:])
    # Its next update is looked at, whenever that is.
    assert (due_before, optimizer.due_ns) == (77, 0)
    assert bodies == 0
    assert "loop_over_pixels" in names(loop.of("body")[-1])


def test_nothing_is_timed_at_level_0() -> None:
    loop = Loop(level=0)

    for _ in range(FIRST + 20):
        loop.step()

    assert [note for note in loop.notes if note["kind"] != "modes"] == []


def test_beside_compiled_code_calls_are_timed_in_gaps_and_no_lines_are_counted() -> None:
    loop = Loop(compiles=True)

    for _ in range(FIRST + 20):
        loop.step()

    assert "log_results" in names(loop.of("gap")[-1])
    assert loop.of("body") == loop.lines() == []
    assert [note["why"] for note in loop.notes if note["kind"] == "untimed"] == ["compiled"]


def test_beside_compiled_code_nothing_is_timed_in_a_loop_without_a_loader_which_needs_its_lines() -> None:
    loop = Loop(compiles=True)

    unfed(loop, FIRST + 5, updates=4)

    assert {note["kind"] for note in loop.notes} - {"modes"} == {"untimed"}


def test_a_gap_in_which_something_was_compiled_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, counts = Loop(compiles=True), {0: 1}
    monkeypatch.setattr(Compiled, "compilations", lambda _: counts[0])

    def validate() -> None:
        counts[0] += loop.calls._thread != 0 and counts[0] < 2
        log_results()

    for _ in range(FIRST):
        loop.step(gap=validate)
    after_one = counts[0], loop.of("gap")
    for _ in range(10):
        loop.step(gap=validate)

    assert after_one == (2, [])
    assert loop.of("gap")[-1]["stretches"] == 3


def test_the_user_profiler_and_debugger_are_left_alone_and_recorded() -> None:
    loop = Loop()
    mine = lambda *_: None  # noqa: E731

    sys.setprofile(mine)
    sys.settrace(mine)
    try:
        for _ in range(FIRST + 20):
            loop.step()
        assert sys.getprofile() is mine
        assert sys.gettrace() is mine
    finally:
        sys.setprofile(None)
        sys.settrace(None)

    assert loop.notes == []
    assert [event[3] for event in loop.events if event[0] == MODES] == [24]


def test_what_is_timed_when_the_recording_ends_is_stopped() -> None:
    loop = Loop()
    while sys.getprofile() is None:
        loop.calls.updated(loop.me, now())
        if sys.getprofile() is None:
            loop.receive()

    loop.recorder.undos[0]()

    assert sys.getprofile() is None


def test_a_forked_child_is_not_timed_on() -> None:
    loop = Loop()
    while sys.getprofile() is None:
        loop.calls.updated(loop.me, now())
        if sys.getprofile() is None:
            loop.receive()

    loop.recorder.forgetters[0]()

    assert sys.getprofile() is None


def test_of_many_stretches_some_are_written_down() -> None:
    notes: Notes = []
    calls = CallTimes("body", notes.append, share=1e9)
    at_ns = 1
    for _ in range(102):
        at_ns += 1_000_000
        if calls.begin(at_ns):
            log_results()
            calls.end(at_ns + 500_000)

    assert calls.stretches == 100
    assert len(notes) < 25
    assert notes[-1]["stretches"] >= 80


def test_python_code_is_not_faster_while_it_is_timed() -> None:
    assert 1.0 <= slowdown(builtins=False) < 50


def test_lines_are_not_counted_while_a_debugger_traces() -> None:
    notes: Notes = []
    counts = LineCounts(notes.append, lambda: False, NO_FRAMEWORK)
    mine = lambda *_: None  # noqa: E731

    sys.settrace(mine)
    try:
        counts.begin([], 1.0)
        loop_over_pixels()
        counts.end()
        assert sys.gettrace() is mine
    finally:
        sys.settrace(None)

    assert notes == []


def test_a_debugger_that_is_set_while_lines_are_counted_stays() -> None:
    notes: Notes = []
    counts = LineCounts(notes.append, lambda: False, NO_FRAMEWORK)
    mine = lambda *_: None  # noqa: E731

    counts.begin([], 1.0)
    try:
        sys.settrace(mine)
        counts.end()
        assert sys.gettrace() is mine
    finally:
        sys.settrace(None)

    assert notes[0]["counting_ns"] is None


@pytest.mark.parametrize(
    ("is_call", "wall_s", "most"), [(True, 0.03, 60_000), (True, 0.001, 6_000), (True, 60.0, 100_000), (False, 0.1, 6_000)]
)
def test_of_a_long_call_more_lines_are_counted_in_proportion(is_call: bool, wall_s: float, most: int) -> None:
    notes: Notes = []
    counts = LineCounts(notes.append, lambda: False, NO_FRAMEWORK, is_call=is_call)
    entry = SimpleNamespace(code=many_lines.__code__, inlinetime=5 * wall_s, calls=None)

    counts.begin([entry], 5 * wall_s, 5)
    many_lines()
    counts.end()

    assert sum(line["count"] for line in notes[0]["lines"]) == most


def many_lines() -> None:
    for _ in range(100_000):
        pass


class OtherFramework(Framework):
    """One whose functions are those of `json`."""

    def owns(self, file: str) -> bool:
        return file == json.__file__


@pytest.mark.parametrize(
    ("calls_it", "by_loop", "framework", "found"),
    [
        (loop_over_pixels, False, NO_FRAMEWORK, True),
        (json.dumps, False, NO_FRAMEWORK, False),
        (None, True, NO_FRAMEWORK, True),
        (None, False, NO_FRAMEWORK, False),
        (loop_over_pixels, False, OtherFramework(), False),
    ],
    ids=["the user's function", "a library's", "the user's loop", "a library's loop", "the framework's own"],
)
def test_of_libraries_the_functions_are_looked_at_that_the_user_calls(
    calls_it: Any, by_loop: bool, framework: Framework, found: bool
) -> None:
    called = SimpleNamespace(code=json.loads.__code__, totaltime=0.4)
    library = SimpleNamespace(code=json.loads.__code__, totaltime=0.4, inlinetime=0.1, calls=None)
    caller = [] if calls_it is None else [SimpleNamespace(code=calls_it.__code__, totaltime=0.5, inlinetime=0.1, calls=[called])]

    assert called_in_libraries([library, *caller], 1.0, framework, by_loop=by_loop) == ({json.loads.__code__} if found else set())


def test_a_function_that_takes_little_is_not_looked_at() -> None:
    library = SimpleNamespace(code=json.loads.__code__, totaltime=0.04, inlinetime=0.01, calls=None)

    assert called_in_libraries([library], 1.0, NO_FRAMEWORK, by_loop=True) == set()
