"""Starts a script again that ended before its experiment did: until the gains are known, the budget is used up, or it comes no further."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from slowstep.errors import SlowstepError
from slowstep.prove.ended_by import EndedBy
from slowstep.prove.executor import Ending, Executor, surely_ended
from slowstep.prove.experiment import Experiment, ScriptStart
from slowstep.prove.first_updates import NeverTrained
from slowstep.prove.later_start import LaterStart, NoTimeLeft, StartCost, drawn_anew, warmed_up
from slowstep.prove.outcome import ExperimentOutcome, Interim
from slowstep.prove.stats.design import AS_IS, FEWEST_STARTS, FIRST
from slowstep.prove.stats.plan import Plan
from slowstep.prove.stats.rounds import sum_rounds
from slowstep.prove.stats.starts import StartedPlan
from slowstep.reason_words import sentence
from slowstep.reasons import Reason, Wording
from slowstep.record.experiment.blocks import LOSS_NOT_FINITE
from slowstep.units import format_count, format_duration
from slowstep.workflow.prove_progress import ProveProgress

ReportDict = dict[str, Any]
# Makes a start ready that has this number, in a sandbox of its own.
MakeStart = Callable[[int], Executor]
# Has a training walk a plan for so many seconds at most, and tells how it stands.
Walk = Callable[[Executor, Plan, float, Callable[[Interim], None]], ExperimentOutcome]

_TOO_EARLY: Final = "The script ended after {steps}, before the gains were known"
AGAIN: Final = f"{_TOO_EARLY}: it is started again until they are, for {{left}} at most. What it does apart from files it does each time"
NOT_AGAIN: Final = f"{_TOO_EARLY}: it is not started again, because {{why}}"
IN_PLACE: Final = "nothing keeps its files apart here, and it would meet what it wrote before"
OWN_LOSS: Final = "its own loss was not finite"
NO_TIME: Final = "that takes about {needed}, and {left} of the budget are left"
NO_FURTHER: Final = "Start {number} of the script {why}: it is not started again"

# Why a start is the last one, as what follows "start 2 of the script".
NOT_STARTED: Final = Wording("start-came-to-nothing", "came to nothing ({error})")
NOT_WARM: Final = Wording("start-not-warm", "ended before it was warmed up")
TOO_SLOW: Final = Wording("start-too-slow", "was not warmed up when the budget was used up")
NO_ROUND: Final = Wording("start-without-round", "ended before any lever was held against the training as it is")
FAILED: Final = Wording("start-failed", "ended with exit code {code}")
HAD_TO_END: Final = Wording("start-had-to-end", "had to be ended ({problem})")
_OTHERWISE: Final = {
    EndedBy.NEVER_TRAINED: Wording("start-never-trained", "made no training step"),
    EndedBy.NOT_TAKEN_UP: Wording("start-not-taken-up", "never began the tests"),
    EndedBy.STOOD_STILL: Wording("start-stood-still", "made no more steps"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Reached:
    """How far the starts came until now: the rounds of all of them, what is left of the budget, how the last one ended, and by what.

    `goes_on`: another start may come further. `walked` is the last one that was made, whether it came to the plan or not: in one that did
    not no lever was on. `outcome` is what all together have measured.
    """

    rounds: StartedPlan
    left_s: float
    ending: Ending
    starts: tuple[ScriptStart, ...]
    goes_on: bool
    ended_by: EndedBy = EndedBy.SCRIPT_ENDED
    walked: Executor | None = None
    outcome: ExperimentOutcome | None = None


class LaterStarts:
    """Makes them, one after the other. The clock and sleeping are injected, and `start_s` is how long first updates are waited for."""

    def __init__(
        self,
        make: MakeStart,
        walk: Walk,
        told: ProveProgress,
        *,
        say: Callable[[str], None],
        start_s: float,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._make, self._walk, self._told, self._say = make, walk, told, say
        self._start_s, self._clock, self._sleep = start_s, clock, sleep

    def go_on(self, plan: Plan, cost: StartCost, first: Reached) -> Reached:
        """From what the first start has reached to what all have. Every start is ended when the next one begins, and at the end; what was
        reached until Ctrl-C stands.
        """
        reached, budget_s = first, first.left_s
        try:
            self._say_first(first, cost.worth_s(plan))
            while reached.goes_on:
                if reached.left_s < cost.worth_s(plan):
                    return replace(reached, goes_on=False, ended_by=EndedBy.BUDGET_SPENT)
                reached = self._one(plan, cost, reached, budget_s)
        except KeyboardInterrupt:
            return replace(reached, goes_on=False, ended_by=EndedBy.INTERRUPTED)
        return reached

    def _say_first(self, first: Reached, worth_s: float) -> None:
        steps, left = format_count(first.starts[0].updates, "step"), format_duration(first.left_s * 1e9)
        if first.left_s < worth_s:
            self._say(NOT_AGAIN.format(steps=steps, why=NO_TIME.format(needed=format_duration(worth_s * 1e9), left=left)))
        else:
            self._say(AGAIN.format(steps=steps, left=left))

    def _one(self, plan: Plan, cost: StartCost, before: Reached, budget_s: float) -> Reached:
        """One more start, to its end."""
        number, began_s = len(before.starts) + 1, self._clock()
        own = drawn_anew(plan, number, before.rounds.notes)
        try:
            later = LaterStart(self._make(number), before.rounds, own)
        except (SlowstepError, OSError) as error:
            return self._come_to_nothing(None, before, EndedBy.SCRIPT_ENDED, NOT_STARTED(error=str(error)))

        def left_s() -> float:
            return before.left_s - (self._clock() - began_s)

        try:
            return self._started(later, before, left_s, budget_s, cost)
        except BaseException:
            # A signal, Ctrl-C at an odd moment, or a fault: nothing of it is left running.
            surely_ended(later)
            raise

    def _started(self, later: LaterStart, before: Reached, left_s: Callable[[], float], budget_s: float, cost: StartCost) -> Reached:
        try:
            later.start()
            is_warm = self._warm(later, cost, len(before.starts) + 1, left_s())
        except KeyboardInterrupt:
            return self._come_to_nothing(later, before, EndedBy.INTERRUPTED, None)
        except NoTimeLeft:
            return self._come_to_nothing(later, before, EndedBy.BUDGET_SPENT, TOO_SLOW())
        except (SlowstepError, OSError, NeverTrained) as error:
            return self._come_to_nothing(later, before, EndedBy.SCRIPT_ENDED, NOT_STARTED(error=str(error)))
        if not is_warm:
            return self._come_to_nothing(later, before, EndedBy.SCRIPT_ENDED, NOT_WARM())
        return self._walked(later, before, left_s(), budget_s, cost)

    def _warm(self, executor: Executor, cost: StartCost, number: int, left_s: float) -> bool:
        progress = warmed_up(
            executor,
            cost.warmup_steps,
            start_s=self._start_s,
            left_s=left_s,
            tell=lambda progress: self._told.started_again(number, progress),
            clock=self._clock,
            sleep=self._sleep,
        )
        return progress is not None

    def _walked(self, later: LaterStart, before: Reached, left_s: float, budget_s: float, cost: StartCost) -> Reached:
        """A start that is warm has its rounds. The second that has any leaves time for a third: two do not tell how much starts differ."""
        number, spent_s = len(before.starts) + 1, budget_s - left_s
        plan = before.rounds.followed_by(later.own)
        is_second = sum(start.rounds > 0 for start in before.starts) + 1 == FEWEST_STARTS - 1
        share_s = left_s / 2 if is_second and left_s / 2 >= cost.worth_s(later.own) else left_s

        def tell(interim: Interim) -> None:
            self._told.testing(plan, replace(interim, seconds=interim.seconds + spent_s), budget_s, start=number)

        outcome = self._walk(later, plan, share_s, tell)
        rounds = later.so_far
        start = self._start_of(later, before, outcome, whole_rounds(rounds) - whole_rounds(before.rounds))
        return Reached(
            rounds=rounds,
            left_s=max(left_s - outcome.seconds, 0.0),
            ending=outcome.ending,
            starts=(*before.starts, start),
            goes_on=(start.came_to_its_end and start.rounds > 0) or (outcome.ended_by == EndedBy.BUDGET_SPENT and share_s < left_s),
            ended_by=outcome.ended_by,
            walked=later,
            outcome=outcome,
        )

    def _start_of(self, later: LaterStart, before: Reached, outcome: ExperimentOutcome, gained: int) -> ScriptStart:
        """What there is to say of a start that walked so many rounds; where it is the last one for a reason of its own, that is said."""
        why = why_the_last(outcome, gained)
        if why is not None:
            self._say(NO_FURTHER.format(number=len(before.starts) + 1, why=sentence(why)))
        came_to_its_end = outcome.ended_by == EndedBy.SCRIPT_ENDED and outcome.ending.exit_code == 0
        return ScriptStart(updates=later.poll().updates, rounds=gained, came_to_its_end=came_to_its_end, reason=why)

    def _come_to_nothing(self, later: LaterStart | None, before: Reached, ended_by: EndedBy, why: Reason | None) -> Reached:
        """A start that measured nothing, in which no lever was on: what was known before stands. None was made where `later` is None."""
        ending = None if later is None else surely_ended(later)
        if ending is not None and ending.problem:
            why = HAD_TO_END(problem=ending.problem)
        if why is not None:
            self._say(NO_FURTHER.format(number=len(before.starts) + 1, why=sentence(why)))
        if later is None or ending is None:
            start = ScriptStart(updates=0, rounds=0, came_to_its_end=False, reason=why)
            return replace(before, goes_on=False, ended_by=ended_by, starts=(*before.starts, start))
        ended_by = EndedBy.INTERRUPTED if ending.interrupted else EndedBy.CUT_SHORT if ending.problem else ended_by
        start = ScriptStart(updates=later.updates, rounds=0, came_to_its_end=ending.exit_code == 0, reason=why)
        return replace(before, goes_on=False, ended_by=ended_by, ending=ending, starts=(*before.starts, start), walked=later)


def why_the_last(outcome: ExperimentOutcome, gained: int) -> Reason | None:
    """Why no start follows one that had so many rounds; None where one may, or where the experiment ended as asked for."""
    ending = outcome.ending
    if outcome.ended_by == EndedBy.CUT_SHORT:
        return HAD_TO_END(problem=ending.problem)
    if outcome.ended_by != EndedBy.SCRIPT_ENDED:
        otherwise = _OTHERWISE.get(outcome.ended_by)
        return None if otherwise is None else otherwise()
    if ending.exit_code:
        return FAILED(code=ending.exit_code)
    return None if gained else NO_ROUND()


def whole_rounds(started: StartedPlan) -> int:
    """The rounds in which both the training as it is and a lever have a whole block: others tell of no gain."""
    whole = sum_rounds(started.steps, started.plan).whole
    return int((whole[:, AS_IS] & whole[:, FIRST:].any(axis=1)).sum())


def reached_by_first(executor: Executor, plan: Plan, ending: Ending, left_s: float) -> Reached:
    """How far the first start came, which ended by itself. All of it is for the diagnosis where it ended in the lead-in."""
    own = StartedPlan(plan=plan, steps=executor.steps(), notes=tuple(executor.lever_notes()))
    start = ScriptStart(updates=executor.poll().updates, rounds=whole_rounds(own), came_to_its_end=True)
    return Reached(rounds=own, left_s=left_s, ending=ending, starts=(start,), goes_on=True)


def may_start_again(experiment: Experiment, report: ReportDict, ending: Ending) -> bool:
    """Whether the script came to its own end, without an error, and another start may tell more of it: of one process, that makes steps."""
    if experiment.ended_by != EndedBy.SCRIPT_ENDED or ending.exit_code != 0 or not experiment.choices:
        return False
    return report["run"]["ranks"] == 1 and bool(report["throughput"]["steps_per_s"])


def why_not_again(experiment: Experiment, health: Iterable[Mapping[str, Any]]) -> str | None:
    """Why such a script is not started again all the same, None where it is: another start would meet the files of this one, or, by the
    notes of its `health`, have the same loss that is not finite, which would be taken for a lever's doing.
    """
    if not experiment.place.isolates_files:
        return IN_PLACE
    return OWN_LOSS if any(note.get("name") == LOSS_NOT_FINITE.name for note in health) else None


def cost_of_start(report: ReportDict) -> StartCost:
    """What a later start takes before it measures, by the first one."""
    run = report["run"]
    step_ms = 1000.0 / report["throughput"]["steps_per_s"]
    return StartCost(startup_s=run["startup_s"] or 0.0, warmup_steps=run["warmup_steps"] or 0, step_ms=step_ms)
