from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fake_executor import made_steps
from slowstep.prove.stats.effects import blocks_changed, last_words
from slowstep.prove.stats.estimates import estimate
from slowstep.prove.stats.judging import judge_all
from slowstep.prove.stats.kept import kept_share, with_kept
from slowstep.prove.stats.plan import Arm, Plan
from slowstep.prove.stats.rounds import sum_rounds
from slowstep.prove.stats.starts import StartedPlan, as_one

ARMS = (Arm(name="as-is"), Arm(name="control"), Arm(name="lever"))


def start(rounds: int, *, gain: float = 2.0, order: tuple[int, ...] = (0, 1, 2), missing: int = 0, notes: Any = ()) -> StartedPlan:
    """One whose plan has ten rounds, of which so many were walked, but for the last blocks; a settling and two counted steps in each."""
    plan = Plan(seed=1, steps=2, arms=ARMS, blocks=order * 10, process="7")
    blocks = list(enumerate(plan.blocks))[: rounds * 3 - missing]
    rows = [(arm, block, int(1000 / (gain if arm == 2 else 1)), 4, 0, settles) for block, arm in blocks for settles in (True, False, False)]
    return StartedPlan(plan=plan, steps=made_steps(rows), notes=notes)


def test_one_start_is_as_it_was():
    only = start(3)

    assert as_one([only]) is only


def test_rounds_of_a_later_start_come_behind_those_of_the_one_before():
    whole = as_one([start(3), start(2, order=(2, 0, 1))])

    assert whole.rounds == 5
    assert whole.plan.begins == (3,)
    assert whole.plan.process is None
    rounds = sum_rounds(whole.steps, whole.plan)
    assert rounds.whole[:5].all()
    assert not rounds.whole[5:].any()
    assert rounds.start[:5].tolist() == [0, 0, 0, 1, 1]
    found = estimate(whole.steps, whole.plan)[2]
    assert (found.rounds, found.starts, found.gain.value) == (5, 2, pytest.approx(2.0))


def test_a_round_that_an_end_cut_short_is_none_of_the_next_start():
    whole = as_one([start(3, missing=1), start(4)])

    done = sum_rounds(whole.steps, whole.plan).whole[:7, 2]
    assert done.tolist() == [True, True, False, True, True, True, True]


def test_a_start_that_came_to_no_round_adds_none():
    whole = as_one([start(0), start(4), start(0), start(4)])

    assert whole.rounds == 8
    assert estimate(whole.steps, whole.plan)[2].starts == 2


def test_blocks_and_effects_that_are_noted_count_on():
    def noted(*effects: int) -> list[dict[str, Any]]:
        return [{"arm": 2, "state": "effect", "effect": effect} for effect in effects]

    whole = as_one([start(2, notes=(*noted(3, 6),)), start(2, notes=(*noted(3, 6), {"arm": 2, "state": "spoilt", "block": 5}))])

    assert [note["effect"] for note in whole.notes if note["state"] == "effect"] == [3, 6, 9, 12]
    assert blocks_changed(whole.notes) == {2: 4}
    assert whole.notes[-1]["block"] == 2 * 3 + 5


def test_what_counts_up_in_what_levers_measured_counts_on():
    def noted(*facts: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"arm": 2, "state": "effect", "effect": 1, "facts": each} for each in facts]

    first = noted({"kept_ns": 5, "left_out": {"a": 1}}, {"kept_ns": 9, "left_out": {"a": 2}, "own_workers": 1})
    second = noted({"kept_ns": 3, "left_out": {"a": 3, "b": 1}, "threads": 2}, {"kept_ns": 4, "left_out": {"a": 4, "b": 1}, "threads": 3})
    third = noted({"threads": 4})
    facts = [note["facts"] for note in as_one([start(1, notes=each) for each in (first, second, third)]).notes]

    assert [each["kept_ns"] for each in facts] == [5, 9, 12, 13, 13]
    assert facts[3] == {"kept_ns": 13, "left_out": {"a": 6, "b": 1}, "own_workers": 1, "threads": 3}
    assert facts[4]["threads"] == 4


def test_what_a_lever_leaves_in_each_of_two_starts_is_the_share_that_it_is_in_one():
    # Of a counted step as it is, of 1000 ns, 250 are the first batch of a validation.
    def kept(rounds: int) -> tuple[dict[str, Any], ...]:
        return ({"arm": 2, "state": "effect", "effect": rounds, "facts": {"kept_ns": 250 * 2 * rounds, "kept_each_ns": 250}},)

    one, both = start(4, gain=1.0, notes=kept(4)), as_one([start(4, gain=1.0, notes=kept(4))] * 2)

    shares = [kept_share(last_words(whole.notes)[2].facts, whole.steps, 2) for whole in (one, both)]
    assert shares == pytest.approx([0.25, 0.25])
    found = estimate(both.steps, both.plan)[2]
    judged = judge_all({2: with_kept(found, found.log_ratio, shares[1])})[2]
    assert judged.interval.value == pytest.approx(4 / 3)
    assert judged.verdict != "refuted"


def test_starts_that_gain_differently_widen_the_interval():
    alike, apart = as_one([start(4)] * 3), as_one([start(4, gain=1.5), start(4, gain=2.5), start(4)])

    assert estimate(alike.steps, alike.plan)[2].gain.precision == pytest.approx(0.0, abs=1e-6)
    assert estimate(apart.steps, apart.plan)[2].gain.precision > 0.5
    assert np.isfinite(estimate(apart.steps, apart.plan)[2].gain.value)
