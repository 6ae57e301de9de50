"""Lines of a loop, timed between two moments of it."""

from __future__ import annotations

import string
import sys
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from slowstep.record.timing import line_times
from slowstep.record.timing.line_times import ENOUGH, FIRST, LineTimes, call_cost_ns

now = time.monotonic_ns


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    monkeypatch.setattr(line_times, "ENOUGH", 1)
    # Coverage and debuggers trace too.
    before = sys.gettrace()
    sys.settrace(None)
    yield (written := [])
    assert sys.gettrace() is None
    sys.settrace(before)
    assert all(note["kind"] == "gap_lines" for note in written)


def due(times: LineTimes) -> LineTimes:
    assert [times.is_due() for _ in range(FIRST)] == [False] * (FIRST - 1) + [True]
    return times


def make() -> None:
    time.sleep(0.02)


def begin(times: LineTimes) -> bool:
    return times.begin(sys._getframe(1))


def called(line: dict[str, Any]) -> list[str]:
    return sorted(each["function"] for each in line["callees"])


def lines_of(note: dict[str, Any], function: str) -> dict[int, dict[str, Any]]:
    """Lines of a function, counted from its first one."""
    return {row["line"] - row["first_line"]: row for row in note["lines"] if row["function"].endswith(function)}


def test_lines_are_timed_with_what_they_call_and_that_is_named(notes):
    times = due(LineTimes(notes.append))

    def loop() -> None:
        assert begin(times)
        make()
        time.sleep(0.005)
        sorted([3, 1, 2], key=lambda x: x)
        times.end(now())

    loop()

    lines = lines_of(notes[0], "loop")
    assert lines[2]["ns"] > 20_000_000
    assert called(lines[2]) == ["make"]
    # Where in that line the call stands: its column, and the line and column of its end.
    assert lines[2]["callees"][0]["call"] == [8, lines[2]["line"], 8 + len("make()")]
    assert 5_000_000 < lines[3]["ns"] < lines[2]["ns"]
    assert called(lines[3]) == []
    assert lines[4]["calls"] == 3
    assert called(lines[4]) == []
    # The line of the update holds work of our own.
    assert 1 not in lines
    assert "make" not in {row["function"] for row in notes[0]["lines"]}


class Filled(string.Formatter):
    def get_value(self, key: Any, args: Any, kwargs: Any) -> str:
        make()
        return "x"


def test_a_function_that_a_library_calls_for_a_line_is_named_and_none_that_it_calls(notes):
    times, text = due(LineTimes(notes.append)), Filled()

    def loop() -> None:
        assert begin(times)
        text.format("{}")
        times.end(now())

    loop()

    assert called(lines_of(notes[0], "loop")[2]) == ["Filled.get_value"]


def test_time_after_a_function_of_the_loop_has_returned_is_its_caller_s(notes):
    times = due(LineTimes(notes.append))

    def step() -> None:
        assert begin(times)

    def loop() -> None:
        for _ in range(2):
            if times.running:
                times.end(now())
                break
            step(), time.sleep(0.01)
            make()

    loop()

    lines = lines_of(notes[0], "loop")
    assert lines[5]["ns"] > 10_000_000
    assert called(lines[6]) == ["make"]


def test_a_function_around_the_update_is_traced_when_it_is_called_again(notes):
    times = due(LineTimes(notes.append))

    def step() -> None:
        make()
        if times.running:
            times.end(now())
        else:
            assert begin(times)

    for _ in range(2):
        step()

    assert called(lines_of(notes[0], "step")[1]) == ["make"]


def test_several_functions_on_one_line_are_all_named(notes):
    times = due(LineTimes(notes.append))

    def other() -> None:
        make()

    def loop() -> None:
        assert begin(times)
        make(), other()
        times.end(now())

    loop()

    names = called(lines_of(notes[0], "loop")[2])
    assert [name.rpartition(".")[2] for name in names] == ["make", "other"]


def test_too_many_lines_end_it_and_nothing_of_it_is_kept(notes, monkeypatch):
    monkeypatch.setattr(line_times, "MOST_EVENTS", 50)
    times = due(LineTimes(notes.append))

    def loop() -> None:
        assert begin(times)
        for _ in range(100):
            pass
        assert sys.gettrace() is None
        times.end(now())
        assert sys._getframe().f_trace is None

    loop()

    assert notes == []
    assert not times.is_due()


def test_a_function_that_returns_is_not_kept_alive(notes):
    class Model:
        """Stands for what a training function holds."""

    times = due(LineTimes(notes.append))

    def train() -> weakref.ref[Model]:
        model = Model()
        assert begin(times)
        return weakref.ref(model)

    held = train()

    assert held() is None
    times.end(now())


def test_a_generator_that_goes_on_is_timed_on(notes):
    times = due(LineTimes(notes.append))

    def steps() -> Iterator[None]:
        for _ in range(2):
            make()
            if times.running:
                times.end(now())
            else:
                assert begin(times)
            yield

    for _ in steps():
        time.sleep(0.001)

    assert called(lines_of(notes[0], "steps")[2]) == ["make"]


def test_a_gap_that_is_discarded_is_the_last_one(notes):
    times = due(LineTimes(notes.append))
    assert begin(times)
    times.end(now(), keep=False)

    assert notes == []
    assert sys._getframe().f_trace is None
    assert not times.is_due()


def test_a_gap_that_is_dropped_counts_for_nothing_and_another_one_follows(notes):
    times = due(LineTimes(notes.append))

    for kept, seconds in ((False, 0.05), (True, 0.001)):
        assert begin(times)
        time.sleep(seconds)
        if kept:
            times.end(now())
        else:
            times.drop()
            assert sys.gettrace() is None
            assert times.is_due()

    (told,) = notes
    assert told["gaps"] == 1
    assert sum(line["ns"] for line in told["lines"]) < 45_000_000


def test_nothing_is_timed_under_another_s_trace_function(notes):
    times = due(LineTimes(notes.append))
    sys.settrace(lambda *_: None)
    try:
        assert not begin(times)
        assert sys.gettrace() is not None
    finally:
        sys.settrace(None)


def test_a_child_that_was_forked_in_a_gap_traces_nothing(notes):
    times = due(LineTimes(notes.append))
    assert begin(times)
    times.forget()

    assert sys.gettrace() is None
    assert not times.running
    assert sys._getframe().f_trace is None


def test_a_few_gaps_are_enough(notes, monkeypatch):
    monkeypatch.setattr(line_times, "ENOUGH", ENOUGH)
    times = due(LineTimes(notes.append))
    for _ in range(ENOUGH):
        assert not times.are_known
        assert begin(times)
        make()
        times.end(now())

    assert times.are_known
    assert not times.is_due()
    assert [note["gaps"] for note in notes] == [ENOUGH]


def test_what_counting_a_call_costs_is_measured(notes):
    assert 0 <= call_cost_ns() < 100_000


def test_a_gap_that_waited_for_a_core_is_timed_again_and_counts_where_all_gaps_do(notes):
    times = due(LineTimes(notes.append))

    def loop(*, waited: float) -> None:
        assert begin(times)
        make()
        times.end(now(), waited_ns=int(waited * 20_000_000))

    loop(waited=0.5)
    assert times.is_due()
    assert not notes
    loop(waited=0.05)
    assert lines_of(notes[0], "loop")[2]["ns"] < 40_000_000

    busy = due(LineTimes(notes.append))
    gaps = 0
    while not busy.are_known:
        assert begin(busy)
        busy.end(now(), waited_ns=10**9)
        gaps += 1
    assert gaps == line_times.MOST_DROPPED + 1
