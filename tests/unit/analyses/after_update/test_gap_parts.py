"""Gaps after updates, divided by timed calls and by stacks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from made_parts import function_part, lines_part
from made_recordings import MS, SCRIPT, Training, make_recording
from slowstep.analyses.after_update.gaps import _as_played
from slowstep.analyses.after_update.timed_gaps import GapFunction, TimedGaps
from slowstep.analyses.batches.producers import divide_waits, find_fetches
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.ledger.recording_ledger import build_ledger
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.python.functions import read_stacks
from slowstep.analyses.steps.steps import find_steps
from slowstep.analyses.steps.suspensions import NO_SUSPENSIONS
from slowstep.analyses.steps.trainer import find_trainer
from slowstep.parts import NOT_ATTRIBUTED, PartKind
from slowstep.sources.recording import SOURCE

CALLBACK = function_part("output", "save_mask_images", "train.py", 80)


def _ledger(
    folder: Path,
    timed_ms: float,
    *,
    slowed: float = 1.0,
    unseen: bool = False,
    by_hand: bool = False,
    gradients: float = 0.0,
    logging: float = 0.0,
) -> Ledger:
    """Of a training with a callback of 20 ms after every update, `unseen` by any stack.

    In the few gaps that were timed it took `timed_ms`, and `slowed` times that before what timing cost was taken out.
    """
    timeline = SOURCE.read(make_recording(folder, Training(after_ms=20, after_unseen=unseen, by_hand=by_hand)))
    trainer = find_trainer(timeline)
    stacks = read_stacks(timeline, trainer.process, trainer.thread)
    waits = divide_waits(timeline, trainer, find_fetches(timeline, trainer, NO_SUSPENSIONS, stacks))
    function = GapFunction(
        name="save_mask_images",
        file=SCRIPT,
        line=80,
        share=1.0,
        logging=logging,
        metrics=0.0,
        gradients=gradients,
        ns_per_gap=timed_ms * MS,
        timed_ns_per_gap=slowed * timed_ms * MS,
        timed_per_gap=0.0,
        within=None,
        averages_weights=False,
        copies_weights=False,
    )
    steps = find_steps(trainer, timeline.table("totals"), NO_SUSPENSIONS)
    return build_ledger(timeline, trainer, steps, waits, stacks, TimedGaps(gaps=3, functions=(function,)))


@pytest.mark.parametrize("timed_ms", [20.0, 2.0], ids=["as long as ever", "grown since it was timed"])
def test_a_timed_function_is_named_though_its_work_has_grown_since(tmp_path, timed_ms):
    ledger = _ledger(tmp_path, timed_ms)

    assert float(ledger.of_parts(CALLBACK).mean()) == pytest.approx(20 * MS, rel=0.05)
    assert ledger.share("unattributed") < 0.01


def test_a_function_that_timing_slowed_less_than_measured_is_named_where_no_stack_tells_of_it(tmp_path):
    ledger = _ledger(tmp_path, 4.0, slowed=6.0, unseen=True)

    assert float(ledger.of_parts(CALLBACK).mean()) == pytest.approx(20 * MS, rel=0.05)
    assert ledger.share("unattributed") < 0.01


def test_what_is_longer_than_a_function_can_have_been_is_not_said_to_be_its(tmp_path):
    ledger = _ledger(tmp_path, 1.0, slowed=4.0, unseen=True)

    assert float(ledger.of_parts(CALLBACK).mean()) == pytest.approx(2 * 4 * MS, rel=0.05)
    assert float(ledger.of("unattributed").mean()) == pytest.approx(12 * MS, rel=0.05)


def test_what_a_timed_function_spends_in_an_update_by_hand_is_the_training_s_own(tmp_path):
    ledger = _ledger(tmp_path, 20.0, by_hand=True, gradients=0.75)

    assert float(ledger.of("compute", PartKind.UPDATE_BY_HAND).mean()) == pytest.approx(15 * MS, rel=0.05)
    assert float(ledger.of_parts(CALLBACK).mean()) == pytest.approx(5 * MS, rel=0.05)


def test_a_timed_function_that_names_gradients_beside_an_optimizer_is_a_callback(tmp_path):
    ledger = _ledger(tmp_path, 20.0, gradients=0.75)

    assert float(ledger.of_parts(CALLBACK).mean()) == pytest.approx(20 * MS, rel=0.05)


def test_who_logs_what_gradients_are_like_logs_all_the_same(tmp_path):
    ledger = _ledger(tmp_path, 20.0, by_hand=True, gradients=1.0, logging=0.75)

    assert float(ledger.of_parts(replace(CALLBACK, stage="store")).mean()) == pytest.approx(15 * MS, rel=0.05)
    assert float(ledger.of("compute", PartKind.UPDATE_BY_HAND).mean()) == pytest.approx(5 * MS, rel=0.05)


def test_what_mostly_runs_in_roll_outs_is_one_wherever_it_runs():
    alone = function_part("preprocess", "collect", "agent.py", 3)
    played = replace(alone, kind=PartKind.ROLL_OUT)
    other = function_part("preprocess", "sample", "agent.py", 9)

    assert _as_played([played, played, alone, other]) == [played, played, played, other]
    # A function that is called in a roll-out, too, makes input all the same.
    assert _as_played([played, alone, alone]) == [played, alone, alone]


WRAPPER = ("/usr/lib/python3.11/site-packages/torch/optim/optimizer.py", "Optimizer.profile_hook_step.<locals>.wrapper")


@pytest.mark.parametrize(("gap_ms", "stage"), [(0.1, "compute"), (5, "unattributed")], ids=["short", "long"])
def test_only_a_short_gap_is_the_last_of_the_update(tmp_path, gap_ms, stage):
    training = Training(after_ms=gap_ms, after="", after_library=WRAPPER, stack_period_ms=0.05)
    timeline = SOURCE.read(make_recording(tmp_path, training))
    trainer = find_trainer(timeline)
    stacks = read_stacks(timeline, trainer.process, trainer.thread)
    waits = divide_waits(timeline, trainer, find_fetches(timeline, trainer, NO_SUSPENSIONS, stacks))
    steps = find_steps(trainer, timeline.table("totals"), NO_SUSPENSIONS)

    ledger = build_ledger(timeline, trainer, steps, waits, stacks)

    part = lines_part(stage, "train.py", 34) if stage == "compute" else NOT_ATTRIBUTED
    assert float(ledger.of_parts(part).mean()) == pytest.approx(gap_ms * MS, rel=0.1)


@pytest.mark.parametrize(("function", "stage"), [("Module._call_impl", "output"), ("Module.state_dict", "compute")])
def test_a_loop_that_calls_its_model_again_after_the_update_is_not_training_it(tmp_path, function, stage):
    training = Training(after_ms=20, after="", after_library=("/usr/lib/python3.11/site-packages/torch/nn/modules/module.py", function))

    m = measure_recording(SOURCE.read(make_recording(tmp_path, training)))

    assert float(m.ledger.of_parts(lines_part(stage, "train.py", 34)).mean()) == pytest.approx(20 * MS, rel=0.05)
