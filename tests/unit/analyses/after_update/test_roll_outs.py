from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from slowstep.analyses.after_update.roll_outs import mark_roll_outs
from slowstep.analyses.python.functions import Path, Stacks
from slowstep.analyses.steps.forwards import Forwards, find_forwards
from slowstep.timeline.schema import TABLE
from slowstep.timeline.timeline import Frame

SITE = "/opt/venv/lib/python3.12/site-packages"


def _frame(function: str, file: str = "/home/u/p/train.py") -> Frame:
    return Frame(file=file, function=function, first_line=1, line=7)


MAIN = _frame("<module>")
ENVIRONMENT = (MAIN, _frame("act"), _frame("TimeLimit.step", f"{SITE}/gymnasium/wrappers/common.py"))
ROLL_OUT = (MAIN, _frame("OnPolicyAlgorithm.collect_rollouts", f"{SITE}/stable_baselines3/common/on_policy_algorithm.py"))
JUDGED = (MAIN, _frame("evaluate_policy", f"{SITE}/stable_baselines3/common/evaluation.py"), ENVIRONMENT[-1])
VALIDATES = (MAIN, _frame("validate"))
UNNAMED = (MAIN, _frame("go_through"))


def _found(samples: int | None, paths: list[Path], *, trained: int | None = 64, stretches: int = 1, asked: int = -1) -> Forwards:
    """Stretches of four calls in evaluation mode, 100 ns each, with the stacks in the first one, and training between them."""
    rows = []
    for number in range(stretches):
        calls = [(20 * k, samples, False) for k in range(4)] + [(90, trained, True)]
        for begin, given, gradients in calls:
            at = 100 * number + begin
            rows.append(
                {"process": 0, "thread": 1, "start_ns": at, "end_ns": at + 5, "kind": "forward", "module": 1, "samples": given}
                | {"gradients": gradients, "evaluating": not gradients}
            )
    spans = pl.DataFrame(rows, schema=TABLE["spans"].schema, strict=False)
    stacks = Stacks(
        time_ns=np.arange(1, len(paths) + 1) * 7,
        weight_ns=np.ones(len(paths)),
        stack=np.arange(len(paths)),
        frames=dict(enumerate(paths)),
        blocked=np.zeros(len(paths), np.bool_),
        device_idle=np.full(len(paths), -1, np.int8),
    )
    return mark_roll_outs(find_forwards(spans, np.arange(1, stretches + 1) * 100 - 1), spans, stacks, np.array([asked]))


@pytest.mark.parametrize(
    ("samples", "paths", "plays"),
    [
        (64, [ENVIRONMENT], True),
        (64, [ROLL_OUT], True),
        (64, [(MAIN, _frame("play"))], True),
        (64, [(MAIN, _frame("GridEnv.step"))], True),
        (1, [JUDGED, ENVIRONMENT, JUDGED], False),
        (1, [VALIDATES], False),
        (1, [UNNAMED], True),
        (64, [UNNAMED], False),
        (256, [], False),
        (1, [], True),
        (None, [], False),
    ],
    ids=[
        "a library of environments", "a library's roll-out", "a name", "an environment", "an agent that is judged", "a validation by name",
        "few samples", "as many as in training", "more, unseen", "few, unseen", "unknown",
    ],
)  # fmt: skip
def test_an_agent_that_plays_in_evaluation_mode_is_told_from_a_validation(samples, paths, plays):
    found = _found(samples, paths)

    assert found.apart_plays.tolist() == [plays]
    assert found.apart_evaluating.tolist() == [not plays]


def test_where_it_is_unknown_how_many_samples_are_trained_on_few_are_not_fewer():
    assert _found(1, [UNNAMED], trained=None).apart_plays.tolist() == [False]


def test_a_stretch_in_which_no_stack_was_taken_is_as_the_others():
    assert _found(64, [ENVIRONMENT], stretches=3).apart_plays.tolist() == [True] * 3
    assert _found(64, [VALIDATES], stretches=3).apart_plays.tolist() == [False] * 3


@pytest.mark.parametrize(
    ("asked", "paths", "plays"),
    [(30, [UNNAMED], True), (30, [VALIDATES], False), (85, [UNNAMED], False)],
    ids=["between calls", "in a validation by name", "after the last call"],
)
def test_whoever_asks_for_the_trainings_input_between_calls_plays(asked, paths, plays):
    assert _found(64, paths, asked=asked).apart_plays.tolist() == [plays]
