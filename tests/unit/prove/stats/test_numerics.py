"""The comparison of losses: what is said, and what is not."""

from __future__ import annotations

import json

import numpy as np
import pytest

from slowstep.prove.stats.losses import UpdateLosses
from slowstep.prove.stats.numerics import NotFinite, Pair, compare_losses, says


def run(*values: float, steps: int = 40, inputs: int = 7, unknown: tuple[int, ...] = ()) -> UpdateLosses:
    """A run whose losses are these, the last one repeated."""
    loss = np.array([*values, *[values[-1]] * (steps - len(values))])
    passes = np.ones(len(loss), dtype=np.int64)
    passes[list(unknown)] = 0
    return UpdateLosses(loss=loss, passes=passes, inputs=np.full(len(loss), inputs))


def test_no_pair_says_nothing() -> None:
    found = compare_losses([])

    assert (found.seeds, found.steps, found.whole, found.bitwise_equal, found.same_input) == (0, 0, None, False, None)


def test_the_difference_stands_beside_the_spread_between_seeds() -> None:
    pairs = [
        Pair(seed=1, without=run(1.0), with_lever=run(1.01)),
        Pair(seed=2, without=run(2.0), with_lever=run(2.02)),
        Pair(seed=3, without=run(3.0), with_lever=run(3.03)),
    ]

    found = compare_losses(pairs)

    assert found.whole is not None
    assert found.whole.relative == pytest.approx(0.01)
    assert found.whole.by_seed == pytest.approx((0.005, 0.01, 0.015))
    assert found.whole.spread == pytest.approx(1.0)
    assert (found.seeds, found.steps, found.same_input, found.late) == (3, 40, True, None)
    assert says(found) == (
        "mean loss over 40 steps +1.00 % with the lever, between seeds 100.00 %, 3 seeds; too few steps to say anything about convergence"
    )


def test_one_seed_has_no_spread() -> None:
    found = compare_losses([Pair(seed=1, without=run(-2.0), with_lever=run(-2.2))])

    assert found.whole is not None
    assert found.whole.relative == pytest.approx(-0.1)
    assert found.whole.spread is None
    assert "between seeds" not in says(found)


@pytest.mark.parametrize(("steps", "is_said"), [(99, False), (100, True)])
def test_the_end_of_the_runs_is_compared_from_100_steps_on(steps: int, is_said: bool) -> None:
    late = [2.0] * 80 + [4.0]
    found = compare_losses([Pair(seed=1, without=run(2.0, steps=steps), with_lever=run(*late, steps=steps))] * 2)

    assert (found.late is not None) == is_said
    assert ("convergence" in says(found)) != is_said
    if found.late is not None:
        assert found.late.relative == pytest.approx(1.0)


def test_equal_to_the_last_bit_is_said_and_nearly_equal_is_not() -> None:
    almost = np.nextafter(1.0, 2.0)

    same = compare_losses([Pair(seed=1, without=run(1.0), with_lever=run(1.0))])
    nearly = compare_losses([Pair(seed=1, without=run(1.0), with_lever=run(almost))])

    assert (same.bitwise_equal, nearly.bitwise_equal) == (True, False)
    assert says(same).startswith("the losses are equal to the last bit: 40 steps, 1 seed")
    assert says(nearly).startswith("mean loss over 40 steps +0.00 %")


def test_steps_before_the_lever_was_on_and_after_the_shortest_run_do_not_count() -> None:
    found = compare_losses(
        [
            Pair(seed=1, without=run(9.0, 9.0, 9.0, 1.0), with_lever=run(9.0, 9.0, 9.0, 2.0), first=3),
            Pair(seed=2, without=run(9.0, 1.0, steps=30), with_lever=run(9.0, 2.0, steps=50), first=1),
        ]
    )

    assert found.steps == 27
    assert found.whole is not None
    assert found.whole.relative == pytest.approx(1.0)


def test_steps_without_a_known_loss_are_left_out_and_too_few_of_them_are_not_compared() -> None:
    some = compare_losses([Pair(seed=1, without=run(1.0, unknown=(3, 4)), with_lever=run(1.0, unknown=(4, 5)))])
    few = compare_losses([Pair(seed=1, without=run(1.0, steps=9), with_lever=run(1.5, steps=9))])

    assert some.steps == 37
    assert (few.whole, few.bitwise_equal) == (None, False)
    assert says(few) == "the losses could not be compared: 9 steps of 1 seed have one that is known"


def test_a_mean_of_nothing_has_no_shares() -> None:
    assert compare_losses([Pair(seed=1, without=run(0.0), with_lever=run(1.0))]).whole is None


def test_a_loss_that_is_not_finite_is_all_that_is_said() -> None:
    found = compare_losses([Pair(seed=2, without=run(1.0), with_lever=run(1.0, 2.0, float("nan")), first=2)])

    assert found.not_finite == (NotFinite(seed=2, with_lever=True, step=3),)
    assert (found.whole, found.bitwise_equal) == (None, False)
    assert found.spoils
    assert says(found) == (
        "the loss was not finite at step 3 with the lever (seed 2), and always was without it: "
        "whatever the lever gains, it spoils the training"
    )


@pytest.mark.parametrize(("first", "steps"), [(3, 40), (0, 2)])
def test_a_loss_before_the_lever_or_behind_the_end_of_the_run_without_it_is_not_laid_at_its_door(first: int, steps: int) -> None:
    found = compare_losses([Pair(seed=1, without=run(1.0, steps=steps), with_lever=run(1.0, 2.0, float("nan")), first=first)])

    assert not found.spoils
    assert says(found) == "the loss was not finite at step 3 with the lever (seed 1): the lever's runs were ended"


def test_a_training_that_diverges_by_itself_is_no_fault_of_the_lever() -> None:
    found = compare_losses([Pair(seed=1, without=run(1.0, float("inf")), with_lever=run(float("nan")))])

    assert not found.spoils
    assert says(found) == (
        "the loss was not finite at step 2 without the lever (seed 1) and at step 1 with the lever (seed 1): "
        "there is nothing to compare with"
    )


def test_data_in_another_order_are_said_and_data_that_nobody_saw_are_not() -> None:
    other = compare_losses([Pair(seed=1, without=run(1.0, inputs=7), with_lever=run(1.1, inputs=8))])
    unseen = compare_losses([Pair(seed=1, without=run(1.0, inputs=-1), with_lever=run(1.1, inputs=-1))])

    assert (other.same_input, unseen.same_input) == (False, None)
    assert "another order" in says(other)
    assert "another order" not in says(unseen)


def test_a_comparison_is_plain_data_for_the_report() -> None:
    found = compare_losses([Pair(seed=1, without=run(1.0), with_lever=run(1.5))])

    row = json.loads(json.dumps(found.as_row()))

    assert row["says"] == says(found)
    assert row["whole"]["by_seed"] == [0.5]
