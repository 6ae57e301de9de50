from __future__ import annotations

import numpy as np

from fake_executor import made_steps
from slowstep.prove.stats.plan import Arm, Plan
from slowstep.prove.stats.rounds import sum_rounds

# Two rounds of three arms, two steps a block.
PLAN = Plan(seed=0, steps=2, arms=tuple(Arm(name=name) for name in ("as-is", "control", "third")), blocks=(0, 2, 1, 1, 0, 2))
MS = 1_000_000


def _block(block: int, *ms: int, arm: int | None = None, samples: int = 8, delay: int = 0) -> list[tuple[int, int, int, int, int, bool]]:
    """A step that settles, then counted ones."""
    arm = PLAN.blocks[block] if arm is None else arm
    return [(arm, block, 999 * MS, samples, 0, True)] + [(arm, block, each * MS, samples, delay * MS, False) for each in ms]


def test_without_steps_no_block_is_whole():
    rounds = sum_rounds(made_steps([]), PLAN)

    assert rounds.whole.shape == (2, 3)
    assert not rounds.whole.any()
    assert rounds.done() == 0


def test_steps_are_summed_by_round_and_arm_without_those_that_settle():
    rounds = sum_rounds(made_steps(_block(0, 10, 12) + _block(1, 5, 6) + _block(3, 20, 22, delay=3)), PLAN)

    assert rounds.whole.tolist() == [[True, False, True], [False, True, False]]
    assert rounds.ns[0].tolist() == [22 * MS, 0, 11 * MS]
    assert rounds.ns[1, 1] == 42 * MS
    assert rounds.delay_ns[1, 1] == 6 * MS
    assert rounds.samples is not None
    assert rounds.samples[0, 0] == 16
    assert rounds.both(0, 2).tolist() == [0]
    assert rounds.both(0, 1).tolist() == []
    assert rounds.done() == 2


def test_steps_before_the_first_block_belong_to_none():
    waiting = [(0, -1, 7 * MS, 8, 0, False)] * 2

    assert not sum_rounds(made_steps(waiting), PLAN).whole.any()


def test_a_block_that_was_cut_off_is_not_whole():
    assert sum_rounds(made_steps(_block(0, 10)), PLAN).done() == 0


def test_a_block_in_which_the_lever_could_not_be_switched_on_is_not_its_arms():
    rounds = sum_rounds(made_steps(_block(0, 10, 10) + _block(1, 10, 10, arm=0)), PLAN)

    assert rounds.whole.tolist()[0] == [True, False, False]


def test_the_floor_is_added_to_each_step_of_its_arm_only():
    rounds = sum_rounds(made_steps(_block(0, 10, 10) + _block(1, 5, 5)), PLAN, {2: 1.5 * MS})

    assert rounds.ns[0].tolist()[0] == 20 * MS
    assert rounds.ns[0].tolist()[2] == 13 * MS


def test_samples_count_only_where_every_step_has_them():
    known, unknown = _block(0, 10, 10), _block(1, 5, 5, samples=-1)

    assert sum_rounds(made_steps(known), PLAN).samples is not None
    assert sum_rounds(made_steps(known + unknown), PLAN).samples is None


def test_a_step_that_received_no_batch_is_made_up_for_by_the_next():
    """As where a batch is asked for ahead: an epoch's last step receives none, the first of the next two."""
    ahead = _block(1, 5, samples=0) + _block(1, 5, samples=16)[1:]

    rounds = sum_rounds(made_steps(_block(0, 10, 10) + ahead), PLAN)

    assert rounds.samples is not None
    assert sorted(rounds.samples[0].tolist()) == [0, 16, 16]


def test_a_block_without_any_sample_has_no_throughput_of_samples():
    assert sum_rounds(made_steps(_block(0, 10, 10) + _block(1, 5, 5, samples=0)), PLAN).samples is None


def test_samples_of_a_block_that_is_not_whole_do_not_matter():
    assert sum_rounds(made_steps(_block(0, 10, 10) + _block(1, 5, samples=-1)), PLAN).samples is not None


def test_an_unknown_delay_makes_its_block_unknown():
    steps = _block(0, 10, 10) + _block(1, 5, 5)
    steps[-1] = (2, 1, 5 * MS, 8, -1, False)

    assert sum_rounds(made_steps(steps), PLAN).delay_known[0].tolist() == [True, True, False]


def test_a_plan_of_broken_rounds_is_laid_out_all_the_same():
    plan = Plan(seed=0, steps=2, arms=PLAN.arms, blocks=(0, 2, 1, 1))

    assert sum_rounds(made_steps(_block(3, 1, 2)), plan).whole.tolist() == [[False] * 3, [False, True, False]]
    assert np.isfinite(sum_rounds(made_steps([]), plan).ns).all()
