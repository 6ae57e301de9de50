"""What timed gaps tell of functions, by their calls alone."""

from __future__ import annotations

import pytest

from made_measurements import SCRIPT
from made_timed_calls import MS, Function, calls, timeline_of
from slowstep.analyses.after_update.timed_gaps import FEWEST_GAPS, find_timed_gaps

AFTER: Function = (SCRIPT, "after_step", 80)
RUNNER: Function = (SCRIPT, "Runner.train", 30)
NEXT: Function = ("<built-in>", "built-in method builtins.next", 0)
REQUEST: Function = ("/opt/slowstep/record/waits.py", "Waits.build_hook.<locals>.__next__", 76)
OUR_HOOK: Function = ("/opt/slowstep/record/hooks/torch_module.py", "_recorded.<locals>.call", 30)


def test_who_asks_for_the_next_batch_after_the_update_is_not_blamed_for_what_making_it_takes():
    """A runner's `train_iter` begins with `next(loader)`: the gap ends in it, and holds nothing but the request of its time."""
    rows = [(AFTER, 30, 30, []), (RUNNER, 45, 3, [[2, 42]]), (NEXT, 42, 0, [[3, 42]]), (REQUEST, 42, 42, [])]

    gaps = find_timed_gaps(timeline_of(calls("gap", 75, *rows)), 0)

    assert gaps is not None
    # Of 33 ms beside the request, 30 and 3.
    assert {each.name: each.share for each in gaps.functions} == pytest.approx({"after_step": 30 / 33, "Runner.train": 3 / 33})


def test_a_callback_that_calls_a_model_whose_hooks_are_ours_keeps_its_time():
    gaps = find_timed_gaps(timeline_of(calls("gap", 30, (AFTER, 30, 1, [[1, 29]]), (OUR_HOOK, 29, 29, []))), 0)

    assert gaps is not None
    assert [(each.name, each.ns_per_gap) for each in gaps.functions] == [("after_step", pytest.approx(10 * MS))]


def test_a_gap_or_two_tell_nothing():
    assert find_timed_gaps(timeline_of(calls("gap", 10, (AFTER, 10, 10, []), stretches=FEWEST_GAPS - 1)), 0) is None
