"""What a stack in a gap was doing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from slowstep.analyses.after_update.gap_sides import GapBounds
from slowstep.analyses.after_update.gaps import part_of
from slowstep.analyses.steps.input_code import NONE_RECORDED, InputCode
from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.timeline import Frame

SCRIPT = "/home/u/p/train.py"
TORCH = "/usr/lib/python3.11/site-packages/torch"
MODULE = f"{TORCH}/nn/modules/module.py"


def _frame(function: str, line: int, file: str = SCRIPT, first: int = 1) -> Frame:
    return Frame(file=file, function=function, first_line=first, line=line)


def _trainer(*, is_fed: bool = True, input_code: InputCode = NONE_RECORDED) -> Trainer:
    """Of a loop that updates in line 30 and calls its model in line 26."""
    way = (_frame("main", 30, first=10),)
    facts = SimpleNamespace(inner_loops={}, script=SCRIPT, uses_gradients=frozenset())
    return cast(
        Trainer,
        SimpleNamespace(
            is_fed=is_fed,
            by_hand=False,
            has_optimizers=True,
            takes_turns=True,
            optimizer=0,
            other_cells=0,
            facts=facts,
            input_code=input_code,
            way_to=lambda optimizer: way,
            way_to_update=way,
            way_to_forward=(_frame("main", 26, first=10),),
        ),
    )


def _stage(line: int, *called: Frame, is_fed: bool = True) -> str:
    return part_of((_frame("main", line, first=10), *called), _trainer(is_fed=is_fed), GapBounds(0, 0, True)).stage


CALL = (_frame("Module._wrapped_call_impl", 9, MODULE), _frame("Sequential.forward", 9, f"{TORCH}/nn/modules/container.py"))
WEIGHTS = _frame("Module.parameters", 9, MODULE)
EMA = _frame("AveragedModel.update_parameters", 9, f"{TORCH}/optim/swa_utils.py")
SCHEDULER = _frame("LRScheduler.step", 9, f"{TORCH}/optim/lr_scheduler.py")
READ_BACK = _frame("Tensor.__format__", 9, f"{TORCH}/_tensor.py")


def test_a_model_that_the_loop_calls_once_more_below_the_update_is_no_part_of_a_step():
    assert _stage(33, *CALL) == "output"


@pytest.mark.parametrize("called", [(WEIGHTS,), (EMA,), (EMA, WEIGHTS), (SCHEDULER,), (READ_BACK,)])
def test_averages_of_weights_schedulers_and_read_backs_of_the_loop_are_the_trainings_own(called):
    assert _stage(33, *called) == "compute"


@pytest.mark.parametrize("line", [26, 30], ids=["above", "in one line"])
def test_a_model_that_is_called_before_the_update_may_be_the_next_steps(line):
    assert _stage(line, *CALL) == "compute"


def test_a_loop_that_makes_its_own_batches_is_judged_by_its_forward():
    assert _stage(33, *CALL, is_fed=False) == "compute"


def test_what_a_frameworks_own_loop_has_a_model_do_is_its_own():
    trainer = f"{TORCH}/../lightning/pytorch/loops/training_epoch_loop.py"
    way = (_frame("advance", 30, trainer, first=10),)
    of_framework = cast(Trainer, SimpleNamespace(**{**vars(_trainer()), "way_to": lambda optimizer: way}))

    assert part_of((_frame("advance", 33, trainer, first=10), *CALL), of_framework, GapBounds(0, 0, True)).stage == "compute"


SAMPLER = _frame("WeightedRandomSampler.__init__", 9, f"{TORCH}/utils/data/sampler.py")
TABLE = "/usr/lib/python3.11/site-packages/datasets/arrow_dataset.py"
SHUFFLE, SAVE = _frame("Dataset.shuffle", 9, TABLE), _frame("save_table", 9, TABLE)
OF_TABLES = InputCode(data_sets=frozenset({(TABLE, "Dataset")}))


@pytest.mark.parametrize(
    ("called", "begins_pass", "stage"),
    [
        (SAMPLER, True, "preprocess"),
        (SAMPLER, False, "compute"),
        (SHUFFLE, True, "preprocess"),
        (SHUFFLE, False, "output"),
        (SAVE, True, "output"),
    ],
    ids=["a sampler between passes", "one in a pass", "a data set between passes", "one in a pass", "what is of no data set"],
)
def test_what_the_loop_itself_asks_a_library_for_between_passes_is_input(called, begins_pass, stage):
    path = (_frame("main", 33, first=10), called)

    assert part_of(path, _trainer(input_code=OF_TABLES), GapBounds(0, 0, True, begins_pass)).stage == stage


def test_in_a_loop_that_makes_its_own_batches_lines_tell_what_is_input():
    path, bounds = (_frame("main", 33, first=10), SHUFFLE), GapBounds(0, 0, True, begins_pass=True)

    assert part_of(path, _trainer(input_code=OF_TABLES, is_fed=False), bounds).stage == "output"
