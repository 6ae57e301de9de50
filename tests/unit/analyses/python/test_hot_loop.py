"""Loops in Python that timed calls and counted lines show."""

from __future__ import annotations

import pytest

from made_measurements import SCRIPT
from made_timed_calls import Function, calls, timeline_of
from slowstep.analyses.python.hot_loop import find_hot_loop

LOSS: Function = (SCRIPT, "weigh_pixels", 60)


@pytest.mark.parametrize(("apart", "is_found"), [(frozenset(), True), (frozenset({(SCRIPT, 60)}), False)], ids=["own", "a callback's"])
def test_a_loop_in_a_callback_that_runs_in_the_body_is_none_of_the_training(apart, is_found):
    lines = [{"file": SCRIPT, "function": "weigh_pixels", "first_line": 60, "line": 64, "count": 5000, "ns": 2_000_000}]
    counted = {"kind": "lines", "of": "body", "complete": True, "lines": lines}

    loop = find_hot_loop(timeline_of(calls("body", 60, (LOSS, 27, 27, [])), counted), 0, None, apart)

    assert (None if loop is None else loop.line) == (64 if is_found else None)
