"""Compiling in the midst of a recording's steps: where it goes on it is blamed, where it was needed once it is not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from judged import answer_of, code_of, finding, values
from made_measurements import measurements
from slowstep.analyses.compute.retraces import ChangeKind, Retrace
from slowstep.analyses.measurements import Measurements
from slowstep.calibration.compiling import FIRST_CALL
from slowstep.findings import EvidenceCode
from slowstep.frameworks._known import all_words
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import UPDATES, Part, PartKind

NAME = "recompilation"
RATE = Part("compute", PartKind.COMPILATION, "rate")
DYNAMO = Part("compute", PartKind.COMPILING)
STEPS = 200
STEP_MS = float(measurements().step_ns.mean()) / 1e6


def compiled(steps: Sequence[int], share: float = 0.1, part: Part = RATE, **changes: Any) -> Measurements:
    """A training that compiles in some of 200 steps, for so large a share of all the time."""
    ms = np.zeros(STEPS)
    ms[list(steps)] = share / (1 - share) * STEP_MS * STEPS / len(steps)
    return measurements(steps=STEPS, ledger={part: ms}, **changes)


@pytest.mark.parametrize("part", [RATE, DYNAMO])
def test_compiling_in_every_tenth_step_is_blamed(part):
    found = finding(NAME, compiled(range(0, STEPS, 10), part=part))

    assert (found.stage, found.claims) == ("compute", (part,))
    assert found.share == pytest.approx(0.1)
    assert found.gain.predicted == pytest.approx(1 / 0.9, abs=0.01)
    assert values(found)["steps in which something is compiled"] == 20
    assert found.names_cause == (part is RATE)


def test_what_was_compiled_in_the_first_half_alone_is_not_blamed():
    assert answer_of(NAME, compiled(range(0, 90, 3))) is None


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        (range(0, 200, 67), "compiled-seldom"),
        (range(100, 102), "compiled-seldom"),
        ([*range(0, 100, 5), *range(100, 200, 12)], "compiled-less-often"),
    ],
    ids=["three folds", "a last batch and a validation", "shapes that get rare"],
)
def test_what_may_be_compiled_once_is_not_blamed_and_of_weight_it_is_said(steps, code):
    much, little = (compiled(steps, share) for share in (0.2, 0.09))

    assert code_of(NAME, much) == code
    assert answer_of(NAME, little) is None


def test_a_moment_is_no_step_in_which_something_is_compiled():
    ms = np.zeros(STEPS)
    ms[101], ms[::10] = 50 * STEP_MS, 0.01 * STEP_MS

    assert code_of(NAME, measurements(steps=STEPS, ledger={RATE: ms})) == "compiled-seldom"


@pytest.mark.parametrize(("share", "is_blamed"), [(0.028, False), (0.032, True)])
def test_it_is_blamed_from_what_a_finding_may_claim_on(share, is_blamed):
    assert (answer_of(NAME, compiled(range(0, STEPS, 10), share)) is not None) == is_blamed


def test_what_it_takes_in_the_slower_half_is_gained_at_best():
    ms = np.zeros(STEPS)
    ms[:100:10], ms[100::10] = 6 * STEP_MS, 2 * STEP_MS
    gain = finding(NAME, measurements(steps=STEPS, ledger={RATE: ms})).gain

    # 0.375 of the first half's time, 0.167 of the second's.
    assert gain.predicted == pytest.approx(1 / (1 - 0.167), abs=0.01)
    assert (gain.high or 0.0) > 1 / (1 - 0.375)


def test_the_first_call_of_a_new_graph_takes_longer_by_what_other_calls_tell():
    ms, calls, alone = np.zeros(STEPS), np.full(STEPS, 4.0), np.full(STEPS, 4.0)
    ms[::10], calls[::10] = 20.0, 12.0
    longer, same = (finding(NAME, measurements(steps=STEPS, ledger={RATE: ms, UPDATES: each})) for each in (calls, alone))

    assert values(longer)["fix saves per step"] == pytest.approx((20.0 + 8.0) / 10, rel=0.02)
    assert values(same)["fix saves per step"] == pytest.approx(20.0 / 10, rel=0.02)
    # At worst longer calls compute more.
    assert longer.gain.low < longer.gain.predicted


def test_where_all_calls_compile_what_they_take_longer_is_told_by_what_compiling_takes():
    m = measurements(steps=STEPS, ledger={RATE: 20.0, UPDATES: 40.0})

    found = finding(NAME, m)
    assert values(found)["fix saves per step"] == pytest.approx(20.0 * (1 + FIRST_CALL.value), rel=0.02)
    assert found.gain.low < found.gain.predicted < (found.gain.high or math.inf)


def test_no_more_is_gained_than_the_workers_let():
    without = finding(NAME, compiled(range(0, STEPS, 10), 0.5)).gain.predicted
    ms = np.zeros(STEPS)
    ms[::10] = STEP_MS * 10
    # One worker takes 0.8 of a step for a batch.
    bound = finding(NAME, measurements(steps=STEPS, ledger={RATE: ms}, making_ms=1.6 * STEP_MS)).gain.predicted

    assert without == pytest.approx(2.0, abs=0.05)
    assert bound == pytest.approx(2 / 1.6, abs=0.05)


def changed(change: ChangeKind, argument: str = "x", *, function: str = "rate", after: str = "b") -> Retrace:
    return Retrace(function=function, argument=argument, change=change, before="a", after=after)


@pytest.mark.parametrize("framework", ["tensorflow", "jax", "keras"])
@pytest.mark.parametrize(
    ("change", "remedies"),
    [
        (ChangeKind.SHAPE, (Remedy.SAME_SHAPES, Remedy.DECLARE_SHAPES)),
        (ChangeKind.DTYPE, (Remedy.SAME_TYPES,)),
        (ChangeKind.VALUE, (Remedy.VALUE_AS_ARRAY,)),
        (ChangeKind.OBJECT, (Remedy.SAME_OBJECT,)),
        (ChangeKind.STRUCTURE, (Remedy.SAME_STRUCTURE,)),
        (ChangeKind.FUNCTION, (Remedy.FUNCTION_ONCE,)),
    ],
)
def test_what_changed_picks_the_fix_in_the_words_of_who_trains(framework, change, remedies):
    words = all_words()[framework]
    found = finding(NAME, compiled(range(0, STEPS, 10), words=words, retraces=(changed(change),)))

    assert [fix.text for fix in found.fixes] == [words.advise(each, argument="x") for each in remedies]
    assert [row.where for row in found.evidence if row.code is EvidenceCode.CHANGED] == ["x of rate"]


def test_what_changed_most_often_comes_first_with_its_last_values():
    values_of_two = [changed(ChangeKind.VALUE, "step", after=str(number)) for number in range(3)]
    found = finding(NAME, compiled(range(0, STEPS, 10), retraces=(changed(ChangeKind.SHAPE), *values_of_two)))

    assert [row.value for row in found.evidence if row.code is EvidenceCode.CHANGED] == ["a -> 2", "a -> b"]
    assert len(found.fixes) == 3


def test_what_changed_for_another_function_is_not_said_of_this_one():
    other = (changed(ChangeKind.VALUE, function="predict"),)
    of_rate, of_any = (finding(NAME, compiled(range(0, STEPS, 10), part=part, retraces=other)) for part in (RATE, DYNAMO))

    assert [len([row for row in found.evidence if row.code is EvidenceCode.CHANGED]) for found in (of_rate, of_any)] == [0, 1]
    assert len(of_rate.fixes) == 2
