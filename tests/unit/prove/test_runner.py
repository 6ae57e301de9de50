from __future__ import annotations

from typing import Any

import pytest

from fake_executor import FakeExecutor, FakeTraining
from slowstep.prove.outcome import ExperimentOutcome, Interim
from slowstep.prove.runner import run
from slowstep.prove.stats import intervals
from slowstep.prove.stats.design import make_plan, schedule
from slowstep.prove.stats.plan import Arm, Plan
from slowstep.record.experiment.lever import LeverSpec


def _arms(count: int) -> list[Arm]:
    return [Arm(name=f"lever {i}", levers=(LeverSpec(name=f"lever-{i}"),)) for i in range(count)]


def _plan(levers: int = 1, budget_s: float = 60.0) -> Plan:
    return make_plan(_arms(levers), seed=1, step_ms=20.0, budget_s=budget_s)


def _run(training: FakeTraining, plan: Plan | None = None, **asked: Any) -> tuple[ExperimentOutcome, FakeExecutor]:
    executor = FakeExecutor(training)
    outcome = run(executor, plan or _plan(), clock=executor.clock, sleep=executor.sleep, **asked)
    return outcome, executor


def test_it_stops_after_eight_rounds_where_nothing_varies():
    outcome, executor = _run(FakeTraining(gains={2: 1.5}))

    assert outcome.ended_by == "precision"
    assert outcome.estimates[2].gain.value == pytest.approx(1.5, rel=1e-6)
    assert 8 <= outcome.estimates[2].rounds <= 11
    assert outcome.precision == pytest.approx(0.0, abs=1e-6)
    assert executor.ended == 1
    assert outcome.ending.killed


def test_it_goes_on_until_every_interval_is_narrow_and_no_further():
    outcome, _ = _run(FakeTraining(gains={2: 1.5}, spread=0.15, alike=0.5))

    assert outcome.ended_by == "precision"
    assert outcome.precision is not None
    assert 0.04 < outcome.precision <= 0.05
    assert outcome.estimates[2].rounds > 12


def test_beside_the_training_little_is_computed_before_the_end_is_near(monkeypatch: pytest.MonkeyPatch):
    whole: list[int] = []
    found = intervals.bootstrap_pivots
    monkeypatch.setattr(intervals, "bootstrap_pivots", lambda relative: whole.append(len(relative)) or found(relative))
    outcome, _ = _run(FakeTraining(gains={2: 1.5}, spread=0.15, alike=0.5))

    rounds = outcome.estimates[2].rounds
    assert rounds > 12
    assert min(whole) > rounds / 2
    # What it ends by, and what it says, is the whole of it.
    assert max(whole) == rounds


def test_it_does_not_end_where_only_the_rough_interval_is_narrow(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(intervals, "bootstrap_pivots", lambda relative: 100 * intervals.student_pivots(len(relative) - 1))
    outcome, _ = _run(FakeTraining(gains={2: 1.5}, spread=0.05), budget_s=20.0)

    assert outcome.ended_by == "budget"


def test_a_wish_for_more_precision_takes_more_rounds():
    training = {"gains": {2: 1.5}, "spread": 0.2}
    coarse, _ = _run(FakeTraining(**training), precision=0.08)
    fine, _ = _run(FakeTraining(**training), precision=0.03)

    assert coarse.ended_by == fine.ended_by == "precision"
    assert fine.estimates[2].rounds > 2 * coarse.estimates[2].rounds


def test_it_stops_at_the_budget_and_says_what_precision_was_reached():
    outcome, executor = _run(FakeTraining(spread=1.0), budget_s=20.0)

    assert outcome.ended_by == "budget"
    assert 20.0 <= outcome.seconds < 21.0
    assert outcome.precision is not None
    assert outcome.precision > 0.05
    assert executor.ended == 1


def test_a_plan_can_be_done_before_it_is_precise():
    plan = Plan(seed=0, steps=5, arms=(Arm(name="as-is"), Arm(name="control"), *_arms(1)), blocks=schedule(3, 9, 0))

    outcome, _ = _run(FakeTraining(spread=1.0), plan)
    assert outcome.ended_by == "plan done"
    assert outcome.estimates[2].rounds == 9


def test_a_script_that_ends_before_leaves_what_was_measured():
    outcome, executor = _run(FakeTraining(spread=0.3, ends_at_step=200))

    assert outcome.ended_by == "script ended"
    assert outcome.estimates[2].rounds == 200 // 18
    assert outcome.precision is not None
    assert not outcome.ending.killed
    assert executor.ended == 1


def test_a_script_that_ends_at_once_leaves_nothing_and_says_so():
    outcome, _ = _run(FakeTraining(ends_at_step=3))

    assert outcome.ended_by == "script ended"
    assert outcome.estimates == {}
    assert outcome.precision is None
    assert len(outcome.steps.ns) == 3


def test_ctrl_c_leaves_what_was_measured_and_ends_the_training():
    outcome, executor = _run(FakeTraining(spread=0.3, interrupt_at_s=6.0))

    assert outcome.ended_by == "interrupted"
    assert outcome.estimates[2].rounds >= 8
    assert executor.ended == 1
    assert outcome.ending.killed


def test_ctrl_c_before_the_first_step_is_no_error():
    outcome, executor = _run(FakeTraining(interrupt_at_s=0.1))

    assert outcome.ended_by == "interrupted"
    assert outcome.estimates == {}
    assert outcome.seconds == 0.0
    assert executor.ended == 1


@pytest.mark.parametrize("interrupt_at_s", [1.0, None])
def test_ctrl_c_while_the_training_is_ended_does_not_leave_it_alive_and_is_heard(interrupt_at_s):
    class Impatient(FakeExecutor):
        interrupted = False

        def end(self):
            if not self.interrupted:
                self.interrupted = True
                raise KeyboardInterrupt
            return super().end()

    executor = Impatient(FakeTraining(interrupt_at_s=interrupt_at_s))

    outcome = run(executor, _plan(), clock=executor.clock, sleep=executor.sleep)
    assert outcome.ended_by == "interrupted"
    assert executor.ended == 1


def test_a_fault_in_the_callback_ends_the_training_too():
    executor = FakeExecutor(FakeTraining())

    def fail(_: Interim) -> None:
        raise RuntimeError("the terminal is gone")

    with pytest.raises(RuntimeError, match="the terminal is gone"):
        run(executor, _plan(), clock=executor.clock, sleep=executor.sleep, on_progress=fail)
    assert executor.ended == 1


def test_a_script_that_never_trains_is_given_up():
    outcome, executor = _run(FakeTraining(trains=False))

    assert outcome.ended_by == "never trained"
    assert executor.now_s < 65
    assert executor.ended == 1


def test_a_plan_that_is_never_taken_up_is_given_up():
    outcome, executor = _run(FakeTraining(takes_up=False))

    assert outcome.ended_by == "not taken up"
    assert executor.now_s < 65


def test_a_training_that_makes_no_more_steps_is_given_up_before_a_long_budget():
    outcome, executor = _run(FakeTraining(spread=1.0, hangs_at_step=200), budget_s=600.0)

    assert outcome.ended_by == "stood still"
    assert executor.now_s < 80
    assert outcome.estimates[2].rounds == 200 // 18


@pytest.mark.slow
def test_slow_steps_are_not_taken_for_a_standstill():
    plan = make_plan(_arms(1), seed=0, step_ms=70_000.0, budget_s=3600.0)

    outcome, _ = _run(FakeTraining(step_ms=70_000.0), plan, budget_s=36_000.0)
    assert outcome.ended_by == "precision"


def test_what_the_executor_had_to_end_is_called_so():
    outcome, _ = _run(FakeTraining(spread=1.0, cut_at_s=8.0))

    assert outcome.ended_by == "cut short"
    assert 2 in outcome.estimates


def test_a_lever_that_fails_has_no_estimate_and_the_others_go_on():
    outcome, _ = _run(FakeTraining(gains={3: 1.4}, spread=0.05, fails_in_block={2: 12}), _plan(levers=2))

    assert outcome.ended_by == "precision"
    assert sorted(outcome.estimates) == [1, 3]
    assert [(note["arm"], note["state"]) for note in outcome.notes] == [(2, "failed")]
    assert outcome.estimates[3].wall.low < 1.4 < outcome.estimates[3].wall.high


def test_it_waits_for_an_arm_of_which_nothing_is_known_yet():
    class LateNotes(FakeExecutor):
        def lever_notes(self):
            return super().lever_notes() if self.now_s > 12 else []

    executor = LateNotes(FakeTraining(not_applicable={2: "no loader"}))

    outcome = run(executor, _plan(levers=2), clock=executor.clock, sleep=executor.sleep)
    assert outcome.ended_by == "precision"
    assert 12 < executor.now_s <= 14


def test_it_does_not_wait_for_a_lever_that_is_not_applicable():
    outcome, _ = _run(FakeTraining(not_applicable={2: "no loader"}), _plan(levers=2))

    assert outcome.ended_by == "precision"
    assert sorted(outcome.estimates) == [1, 3]


def test_where_no_lever_is_left_nothing_more_is_measured():
    outcome, _ = _run(FakeTraining(not_applicable={2: "no loader", 3: "no callback"}), _plan(levers=2))

    assert outcome.ended_by == "no lever left"
    assert outcome.seconds < 2


@pytest.mark.slow
@pytest.mark.parametrize(("changes_from_s", "ended_by"), [(0.0, "precision"), (20.0, "precision"), (None, "budget")])
def test_it_does_not_stop_for_precision_before_what_a_lever_changes_has_come(changes_from_s: float | None, ended_by: str):
    class Seldom(FakeExecutor):
        def lever_notes(self):
            since = self.now_s if changes_from_s is None else changes_from_s
            blocks = range(int(self.now_s))
            return [{"arm": 2, "name": "lever 0", "state": "effect", "effect": max(at - int(since) + 1, 0)} for at in blocks]

    executor = Seldom(FakeTraining(gains={3: 1.5}))

    outcome = run(executor, _plan(levers=2), budget_s=40.0, clock=executor.clock, sleep=executor.sleep)
    assert outcome.ended_by == ended_by
    assert outcome.estimates[2].gain.precision < 0.05
    if changes_from_s:
        # Four blocks in which it did something.
        assert changes_from_s + 4 <= executor.now_s <= changes_from_s + 6


def test_progress_is_told_with_what_is_known_so_far():
    seen: list[Interim] = []

    outcome, _ = _run(FakeTraining(spread=0.15), on_progress=seen.append)
    assert [each.rounds for each in seen] == sorted(each.rounds for each in seen)
    assert seen[-1].rounds > 8
    assert seen[-1].estimates[2].gain == pytest.approx(outcome.estimates[2].gain)
    assert any(each.estimates for each in seen[:-1])


def test_floors_and_corrected_arms_reach_the_estimates():
    outcome, _ = _run(FakeTraining(gains={2: 2.0}, delay_share=0.3), floors={2: 2e6}, corrected=lambda: {1, 2})

    assert outcome.estimates[2].uses_corrected
    assert outcome.estimates[2].gain.value == pytest.approx(20 / 12, rel=1e-6)
    assert outcome.ended_by == "precision"


def test_where_the_corrected_gain_counts_its_width_is_what_stops():
    training = {"gains": {2: 1.5}, "delay_share": 0.6}
    wall, _ = _run(FakeTraining(**training))
    corrected, _ = _run(FakeTraining(**training), corrected=lambda: {1, 2})

    assert corrected.estimates[2].rounds <= 11
    assert wall.estimates[2].rounds > 20


def test_what_is_corrected_is_asked_for_with_each_estimate():
    looks = iter([{1, 2}] * 3)

    # Others are there for the first three estimates: what is narrow by the corrected gain is not what the wall says then.
    outcome, _ = _run(FakeTraining(gains={2: 1.5}, delay_share=0.6), corrected=lambda: next(looks, ()))

    assert not outcome.estimates[2].uses_corrected
    assert outcome.estimates[2].rounds > 20
