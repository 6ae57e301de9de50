"""Losses that are not finite while levers are switched: whose doing it is, from what is seen in the first and the last step of blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from few import few
from levered import TRAINING, run_planned, said, steps_of
from recorded import Server
from slowstep.record.experiment.block_losses import BadLoss, BlockLosses

LATE = None
BATCH, OTHER = 2, 3


class Losses:
    """Losses as they come; None: the device has not said it yet."""

    def __init__(self, *found: bool | None) -> None:
        self.found, self.asked = list(found), 0

    def want(self) -> None:
        self.asked += 1

    def take(self) -> Any:
        return lambda: self.found.pop(0)


def followed(*steps: tuple[int, tuple[int, ...], bool | None], is_finite: bool = True) -> list[BadLoss | None]:
    """Follow steps that are looked at: their block, the arms in question, and whether the loss is finite."""
    loss: Any = Losses(*(finite for *_, finite in steps))
    watch = BlockLosses(loss, is_finite=is_finite)
    found = []
    for number, (block, arms, _) in enumerate(steps, 1):
        watch.want(block, *arms)
        found.append(watch.step_ended(number))
    return found


def blamed(arms: tuple[int, ...], block: int, updates: int) -> BadLoss:
    return BadLoss(what="blamed", arms=arms, block=block, updates=updates)


def test_what_was_finite_in_a_blocks_first_step_and_is_not_in_its_last_was_spoilt_by_its_lever() -> None:
    found = followed((0, (0, BATCH), True), (0, (BATCH,), False), (1, (BATCH, 1), False))

    assert found == [None, blamed((BATCH,), 0, 2), BadLoss(what="spoilt", arms=(BATCH,), block=0, updates=3)]


def test_a_training_that_comes_back_goes_on_without_the_lever() -> None:
    assert followed((0, (0, BATCH), False), (1, (BATCH, 1), True), (1, (1,), True)) == [blamed((BATCH,), 0, 1), None, None]


def test_of_a_block_that_begins_so_the_lever_before_it_is_in_question_too() -> None:
    assert followed((3, (BATCH, 1), False)) == [blamed((BATCH,), 3, 1)]
    assert followed((3, (BATCH, OTHER), False)) == [blamed((BATCH, OTHER), 3, 1)]


def test_without_a_lever_it_is_the_trainings_own_and_no_lever_is_blamed_for_it_later() -> None:
    found = followed((0, (0, 1), True), (0, (1,), False), (1, (1, BATCH), False))

    assert found == [None, BadLoss(what="own", arms=(), block=0, updates=2), None]


def test_nothing_is_looked_at_where_the_loss_was_not_finite_before() -> None:
    loss: Any = Losses()
    BlockLosses(loss, is_finite=False).want(0, BATCH)

    assert loss.asked == 0


def test_a_device_is_asked_again_and_not_waited_for() -> None:
    loss: Any = Losses(LATE, LATE, False)
    watch = BlockLosses(loss, is_finite=True)
    watch.want(4, BATCH)

    assert [watch.step_ended(number) for number in (7, 8, 9)] == [None, None, blamed((BATCH,), 4, 7)]


OWN_LOSS = "torch.nn.functional.mse_loss(outputs, targets)"
PLANNED = (
    TRAINING.replace(f"loss = {OWN_LOSS}", f"loss = scored({OWN_LOSS})")
    + """
calls = []
def scored(loss):
    return loss
def bad(loss):
    calls.append(None)
    return loss * float("nan") if len(calls) > 4 else loss
"""
)


def test_a_lever_after_which_no_loss_is_finite_ends_the_plan_and_what_was_before_stays(server: Server, tmp_path: Path) -> None:
    lever = "swap=__main__:scored=__main__:bad"
    ran = run_planned(server, tmp_path, PLANNED + "train(lambda *_: None, steps=80)\n", lever, blocks=(2, 1, 0) * 5, steps=3)

    (failed,) = said(ran, "failed")
    # Four calls are one block with the step in which it settles; the fifth is the first of its second block.
    assert failed["reason"] == f"the loss was not finite while it was on (step {failed['not_finite']})"
    assert [note["block"] for note in said(ran, "spoilt")] == [3]
    assert {record.a for record in steps_of(ran, 2)} == {0, 3}
    assert ran.trainer.faults == {}
    # As it is, of the block after it: the step that is not counted.
    assert [record.flags for record in steps_of(ran, 1) if record.a == 4] == [64]


@pytest.mark.slow
def test_a_lever_whose_losses_reach_no_update_is_ended_alone(server: Server, tmp_path: Path) -> None:
    skipped = PLANNED.replace("        optimizer.step()", "        if not loss.isfinite(): optimizer.zero_grad()\n        optimizer.step()")
    ran = run_planned(
        server, tmp_path, skipped + "train(lambda *_: None, steps=80)\n", "swap=__main__:scored=__main__:bad", blocks=(2, 1, 0) * 5, steps=3
    )

    assert len(said(ran, "failed")) == 1
    assert said(ran, "spoilt") == []
    assert {record.a for record in steps_of(ran, 0)} >= {2, 5, 8, 11, 14}


@pytest.mark.parametrize("steps", few([1, 3], every=2))
def test_a_loss_that_is_no_number_by_itself_is_no_levers_fault(server: Server, tmp_path: Path, steps: int) -> None:
    own = PLANNED.replace("def scored(loss):\n    return loss", "def scored(loss):\n    return loss * float('nan')")
    ran = run_planned(
        server, tmp_path, own + "train(lambda *_: None, steps=60)\n", "threads=2", "threads=3", blocks=(0, 2, 1, 3) * 3, steps=steps
    )

    assert said(ran, "failed") == []
    assert len({record.a for record in steps_of(ran, 3)}) == 3
    assert "loss-not-finite" in {note["name"] for note in ran.trainer.noted("health")}


@pytest.mark.slow
def test_a_loss_that_was_no_number_before_the_plan_is_said(server: Server, tmp_path: Path) -> None:
    """The script posts the plan itself: its loss was looked at by then."""
    later = (
        PLANNED.replace("def scored(loss):\n    return loss", "def scored(loss):\n    return loss * float('nan')")
        + """
import os
def look(*_):
    calls.append(None)
    if len(calls) == 12:
        with open(os.path.join(os.environ["SLOWSTEP_RECORDING"], "control"), "r+b") as page:
            page.seek(2)
            page.write(bytes([1]))
train(look, steps=60)
"""
    )
    lever = "swap=__main__:scored=__main__:bad"
    ran = run_planned(server, tmp_path, later, lever, blocks=(2, 1, 0) * 3, steps=3, is_posted=False)

    assert said(ran, "failed") == []
    assert len({record.a for record in steps_of(ran, 2)}) == 3
    assert "loss-not-finite" in {note["name"] for note in ran.trainer.noted("health")}


@pytest.mark.slow
def test_that_the_own_loss_was_not_finite_is_said_where_no_plan_came(server: Server, tmp_path: Path) -> None:
    for name in ("whole", "own"):
        (tmp_path / name).mkdir()
    spoilt = "bad.__code__, scored.__code__ = scored.__code__, bad.__code__\n"
    whole, own = (
        run_planned(server, tmp_path / name, PLANNED + before + "train(lambda *_: None, steps=80)\n", blocks=(), steps=3, is_posted=False)
        for name, before in (("whole", ""), ("own", spoilt))
    )

    assert [note["name"] for note in own.trainer.noted("health") if note["name"] == "loss-not-finite"] == ["loss-not-finite"]
    assert not [note for note in whole.trainer.noted("health") if note["name"] == "loss-not-finite"]
