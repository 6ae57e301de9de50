"""Loops in Python that timed calls and counted lines show."""

from __future__ import annotations

import pytest

from made_measurements import SCRIPT
from made_timed_calls import Function, Note, calls, often, timeline_of
from slowstep.analyses.python.hot_loop import find_hot_loop

LOSS: Function = (SCRIPT, "weigh_pixels", 60)


@pytest.mark.parametrize(("apart", "is_found"), [(frozenset(), True), (frozenset({(SCRIPT, 60)}), False)], ids=["own", "a callback's"])
def test_a_loop_in_a_callback_that_runs_in_the_body_is_none_of_the_training(apart, is_found):
    lines = [{"file": SCRIPT, "function": "weigh_pixels", "first_line": 60, "line": 64, "count": 5000, "ns": 2_000_000}]
    counted = {"kind": "lines", "of": "body", "complete": True, "lines": lines}

    loop = find_hot_loop(timeline_of(calls("body", 60, (LOSS, 27, 27, [])), counted), 0, None, apart)

    assert (None if loop is None else loop.line) == (64 if is_found else None)


ASSIGN: Function = (SCRIPT, "Loss.assign", 10)
OVERLAP: Function = (SCRIPT, "overlap", 40)
CONVOLVE: Function = ("/python/site-packages/torch/nn/modules/conv.py", "Conv2d.forward", 550)


def rounds(each_us: float, *, operations: int | None, inner_us: float = 50.0, inner_operations: int | None = 12) -> Note:
    """96 rounds of a line of ASSIGN's that calls OVERLAP, counted in one step."""
    lines = [
        {"file": file, "function": name, "first_line": first, "line": first + 2, "count": 96, "ns": int(96e3 * us), "operations": done}
        for (file, name, first), us, done in ((ASSIGN, each_us, operations), (OVERLAP, inner_us, inner_operations))
    ]
    looked = dict.fromkeys(("hooks", "inside", "gradient", "nothing", "nodes"), 0) | {"of_nodes": 40}
    functions = [
        {"file": file, "function": name, "first_line": first, "calls": number, **looked}
        for (file, name, first), number in ((ASSIGN, 1), (OVERLAP, 96))
    ]
    return {"kind": "lines", "of": "body", "complete": True, "lines": lines, "functions": functions}


def timed(*, called: int = 3 * 96) -> Note:
    """Bodies of 20 ms: 4 ms of ASSIGN's own, 6 ms of OVERLAP, called so often in all three, of which a layer takes 1 ms."""
    note = calls("body", 60, (ASSIGN, 30, 12, [[1, 18]]), (OVERLAP, 18, 15, [[2, 3]]), (CONVOLVE, 3, 3, []))
    return often(note, OVERLAP, called)


@pytest.mark.parametrize(
    ("each_us", "operations", "is_found"),
    [(45.0, 9, True), (45.0, 2, False), (45.0, None, False), (15.0, None, True)],
    ids=["many short operations", "two long ones", "not known of what", "one operation, as it was recorded before"],
)
def test_a_line_is_of_a_loop_by_what_each_of_its_operations_takes(each_us, operations, is_found):
    loop = find_hot_loop(timeline_of(timed(), rounds(each_us, operations=operations)), 0)

    assert (loop is not None) == is_found
    if loop is not None:
        assert loop.operation_ns == (None if operations is None else pytest.approx(each_us * 1e3 / operations))


@pytest.mark.parametrize(
    ("called", "inner_us", "held_ms"),
    [(3 * 96, 50.0, 9.0), (3 * 4, 50.0, 4.0), (3 * 96, 5000.0, 4.0)],
    ids=["in each round", "a few times", "operations of its own work"],
)
def test_what_a_loop_calls_in_each_round_is_the_loops(called, inner_us, held_ms):
    """But for the layer in it."""
    loop = find_hot_loop(timeline_of(timed(called=called), rounds(45.0, operations=9, inner_us=inner_us)), 0)

    assert loop is not None
    assert (loop.name, loop.share) == ("Loss.assign", pytest.approx(held_ms / 20))
