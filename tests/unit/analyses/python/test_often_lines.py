"""How much of a function's own time is that of its lines that run often."""

from __future__ import annotations

import pytest

from made_measurements import SCRIPT
from made_timed_calls import Function, Note, calls, timeline_of
from slowstep.analyses.python.hot_loop import find_hot_loop

OWN: Function = (SCRIPT, "Own.step", 6)
MODEL: Function = ("/python/site-packages/torch/nn/modules/module.py", "Module._call_impl", 1782)
REST: Function = ("/python/site-packages/torch/nn/functional.py", "relu", 1760)
WRAPPER: Function = ("/python/site-packages/torch/optim/optimizer.py", "Optimizer.profile_hook_step.<locals>.wrapper", 509)
UPDATED: Note = calls("body", 60, (OWN, 12, 12, []), (REST, 18, 18, []), (WRAPPER, 24, 6, [[0, 12]]))


def counted(*lines: tuple[int, int, float], called: int = 0, complete: bool = True) -> Note:
    """Lines of a function (line, how often it ran, ms in all), and the calls of it outside of updates that ended meanwhile."""
    file, name, first = OWN
    known = {"file": file, "function": name, "first_line": first}
    rows = [{**known, "line": line, "count": count, "ns": int(ms * 1e6)} for line, count, ms in lines]
    looked = {"calls": called, "hooks": 0, "inside": 0, "gradient": called, "nothing": 0, "nodes": 0, "of_nodes": 40}
    functions = [{**known, **looked}] if called else []
    return {"kind": "lines", "of": "body", "complete": complete, "lines": rows, "functions": functions}


@pytest.mark.parametrize(
    ("lines", "share"),
    [
        (((23, 40, 0.4), (24, 1, 0.08)), 1.0),
        (((23, 40, 0.4), (24, 1, 0.4)), 0.5),
        (((22, 40, 0.2), (23, 40, 0.2), (24, 1, 0.6), (25, 1, 0.6)), 0.25),
    ],
    ids=["its results are put together", "as much beside it", "lists for long operations"],
)
def test_lines_that_run_once_in_a_call_are_no_part_of_its_loop_but_at_most(lines, share):
    note = calls("body", 60, (OWN, 12, 12, []), (REST, 48, 48, []))

    loop = find_hot_loop(timeline_of(note, counted(*lines, called=1)), 0)

    assert loop is not None
    assert (loop.share, loop.high) == pytest.approx((12 * share / 60, 12 / 60), rel=0.01)


@pytest.mark.parametrize("pace", [0.5, 1.0, 2.0])
def test_a_line_that_calls_the_model_takes_nothing_from_the_loop_beside_it(pace):
    """However fast the machine was while lines were counted."""
    note = calls("body", 60, (OWN, 42, 12, [[1, 30]]), (MODEL, 30, 30, []), (REST, 18, 18, []))
    lines = counted((23, 1000, 4 * pace), (24, 1, 10 * pace), called=1)

    loop = find_hot_loop(timeline_of(note, lines), 0)

    assert loop is not None
    assert loop.share == pytest.approx(12 / 60, rel=0.01)


@pytest.mark.parametrize(("called", "share"), [(0, (12 - 3 * 1.4) / 60), (1, 12 / 3 / 60)], ids=["counting ended in it", "whole"])
def test_a_loop_that_counting_ended_in_goes_on(called, share):
    note = calls("body", 60, (OWN, 12, 12, []), (REST, 48, 48, []))
    lines = counted((23, 1, 1.4), (24, 1000, 0.7), called=called, complete=False)

    loop = find_hot_loop(timeline_of(note, lines), 0)

    assert loop is not None
    assert loop.share == pytest.approx(share, rel=0.01)


@pytest.mark.parametrize(("called", "in_update", "whole_ms"), [(0, True, 24), (1, False, 36)], ids=["by it alone", "in the forward too"])
def test_a_loop_that_updates_call_is_part_of_the_optimizer(called, in_update, whole_ms):
    loop = find_hot_loop(timeline_of(UPDATED, counted((23, 40, 0.4), called=called)), 0)

    assert loop is not None
    assert (loop.in_update, loop.share) == (in_update, pytest.approx(12 / whole_ms, rel=0.01))


@pytest.mark.parametrize(("each_ms", "share"), [(0.03, 1.0), (0.3, 0.4 / 12.4)], ids=["a few operations", "an operation of its own"])
def test_lines_of_a_loop_that_take_longer_than_a_few_operations_are_told(each_ms, share):
    note = calls("body", 60, (OWN, 12, 12, []), (REST, 48, 48, []))
    often = counted((23, 40, 40 * each_ms), (24, 1000, 0.4), called=1)

    loop = find_hot_loop(timeline_of(note, often), 0)

    assert loop is not None
    assert loop.short_share == pytest.approx(share, rel=0.01)


@pytest.mark.parametrize(
    ("operations", "share"), [(7, 1.0), (2, 16 / 38), (None, 0.0)], ids=["each of them short", "long ones", "not known"]
)
def test_a_line_of_many_operations_takes_longer_than_one_of_a_few(operations, share):
    note = calls("body", 60, (OWN, 12, 12, []), (REST, 48, 48, []))
    lines = counted((23, 40, 40 * 0.038), called=1)
    lines["lines"][0]["operations"] = operations

    loop = find_hot_loop(timeline_of(note, lines), 0)

    assert (0.0 if loop is None else loop.short_share) == pytest.approx(share)
