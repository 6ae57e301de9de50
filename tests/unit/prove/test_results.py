"""What an experiment says of each lever beside numbers, as codes and values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from made_experiments import made_experiment
from slowstep.prove.arm_levers import LOADED, STOLEN
from slowstep.prove.choose import Choice
from slowstep.prove.lever_faults import OUT_OF_MEMORY, LeverFault
from slowstep.prove.results import (
    ENDED,
    LEFT_CHANGED,
    NO_EFFECT,
    NO_RUNS,
    NOR_IN_RUNS,
    NOT_SWITCHED,
    ONLY_WALL,
    OWN_DEMAND,
    RERUNS,
    RUNS_DIFFER,
    SELDOM,
    UNCORRECTED,
    UNKNOWN_LOAD,
    ExperimentResults,
    Result,
    find_results,
)
from slowstep.prove.stats.design import schedule
from slowstep.prove.stats.plan import Arm, Plan
from slowstep.prove.stats.readings import ExperimentSteps, no_steps
from slowstep.prove.stats.repeated import AllRepeated, RepeatedRuns
from slowstep.prove.stats.verdicts import ArmState
from slowstep.reasons import SAID, Reason
from slowstep.record.experiment.lever import DEMAND, Lever, LeverSpec

STEPS, ROUNDS = 5, 20
CHOICE = Choice(spec=LeverSpec(name="lever"))
REFUSED = {"arm": 2, "state": "not applicable", "reason": "no workers"}
NO_WORKERS = SAID(said="no workers")
PLAN = Plan(
    seed=1,
    steps=STEPS,
    arms=(Arm(name="as-is"), Arm(name="control"), Arm(name="lever", levers=(CHOICE.spec,))),
    blocks=schedule(3, ROUNDS, 1),
)


def trained() -> ExperimentSteps:
    """Steps of three arms, all alike."""
    block = np.repeat(np.arange(len(PLAN.blocks)), STEPS)
    unknown = np.full(len(block), -1)
    noise = np.random.default_rng(1).normal(0, 0.05, len(block))
    return ExperimentSteps(
        arm=np.array(PLAN.blocks)[block],
        block=block,
        ns=(20e6 * np.exp(noise)).astype(np.int64),
        samples=unknown,
        delay_ns=unknown,
        settling=np.zeros(len(block), dtype=np.bool_),
        input_ns=np.zeros(len(block), dtype=np.int64),
    )


def result(
    *notes: dict[str, Any],
    steps: ExperimentSteps | None = None,
    changes: frozenset[str] = frozenset(),
    foreign_share: float | None = 0.0,
    stolen_share: float | None = None,
    **more: Any,
) -> Result:
    lever = Lever(name="lever", changes=changes)
    found = find_results(
        made_experiment((CHOICE,), **more),
        PLAN,
        trained() if steps is None else steps,
        notes,
        levers={"lever": lever},
        predicted_lows={},
        foreign_share=foreign_share,
        stolen_share=stolen_share,
    )
    return found.results[0]


def changed(*effects: int) -> list[dict[str, Any]]:
    """What the lever notes after each of its blocks."""
    return [{"arm": 2, "state": "effect", "effect": effect} for effect in effects]


def test_a_gain_on_a_quiet_machine_is_that_of_the_clock():
    found = result()

    assert (found.state, found.reason, found.why, found.held_back) == ("measured", None, ONLY_WALL(), None)
    assert result(foreign_share=None).why == UNKNOWN_LOAD()


def test_a_lever_that_needs_cores_is_held_back_by_what_others_took():
    demands = frozenset({DEMAND})
    busy = result(changes=demands, foreign_share=0.5)

    assert (busy.why, busy.held_back) == (OWN_DEMAND(), LOADED(share=0.5))
    assert result(changes=demands, foreign_share=0.1, stolen_share=0.1).held_back.code == STOLEN.code
    # Any other is not, and how long it waited is not known here.
    assert (result(foreign_share=0.5).why, result(foreign_share=0.5).held_back) == (UNCORRECTED(share=0.5), None)


def test_a_lever_that_changed_something_seldom_is_held_back_by_that_and_without_any_change_not_measured():
    seldom = result(*changed(0, 1, 1, 2))
    never = result(*changed(0, 0))

    assert (seldom.state, seldom.held_back) == ("measured", SELDOM(blocks=2, rounds=ROUNDS))
    assert (never.state, never.reason, never.held_back) == ("unmeasured", NO_EFFECT(steps=STEPS * ROUNDS), None)


def test_what_was_not_come_to_is_not_measured():
    found = result(steps=no_steps())

    assert (found.state, found.reason, found.why) == ("unmeasured", ENDED(), None)


@pytest.mark.parametrize(
    ("runs", "state", "reason"),
    [
        (None, "not applicable", NO_WORKERS),
        (RepeatedRuns(state=ArmState.MEASURED, ratios=(1.5, 1.5, 1.5, 1.6)), "measured", NOT_SWITCHED(reason=NO_WORKERS)),
        (RepeatedRuns(state=ArmState.UNMEASURED, reason=SAID(said="a")), "not applicable", NO_RUNS(reason=NO_WORKERS, why=SAID(said="a"))),
        (RepeatedRuns(state=ArmState.FAILED, reason=SAID(said="b")), "failed", NOR_IN_RUNS(reason=NO_WORKERS, why=SAID(said="b"))),
    ],
    ids=["given up", "measured in runs", "no runs", "failed in them, too"],
)
def test_why_a_lever_could_not_be_switched_is_told_whatever_its_runs_say(runs: RepeatedRuns | None, state: str, reason: Reason):
    more = {} if runs is None else {"repeated": AllRepeated(levers={CHOICE.name: runs})}
    found = result(REFUSED, steps=no_steps(), **more)

    assert (found.state, found.reason) == (state, reason)
    assert (found.repeated is None) == (state != "measured")
    assert found.why == (RERUNS() if state == "measured" else None)


@pytest.mark.parametrize(
    ("doubts", "codes"),
    [
        ({}, []),
        ({"not_undone": ({"name": "a"}, {"name": "b"}, {"name": "a"})}, [LEFT_CHANGED(levers="a, b")]),
        ({"not_undone": ({"name": "a"},), "runs_differ": True}, [LEFT_CHANGED(levers="a"), RUNS_DIFFER()]),
    ],
)
def test_gains_are_not_trusted_for_reasons_that_are_told(doubts: dict[str, Any], codes: list[Reason]):
    found = ExperimentResults(control=None, results=(), **doubts)

    assert [*found.distrust] == codes
    assert found.trustworthy is (False if codes else None)


def test_what_the_script_died_of_is_told_by_its_own_reason():
    why = OUT_OF_MEMORY(said="MemoryError")
    found = result(faults=(LeverFault(choice=CHOICE, reason=why),))

    assert (found.state, found.reason) == ("failed", why)
