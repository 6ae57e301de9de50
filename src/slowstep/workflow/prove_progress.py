"""How far a proof is, told while it goes on."""

from __future__ import annotations

from collections.abc import Sequence

from slowstep.prove.executor import Progress
from slowstep.prove.first_updates import FIRST_STEP
from slowstep.prove.lead_in import LeadLimits
from slowstep.prove.outcome import Interim
from slowstep.prove.reruns import round_words
from slowstep.prove.stats.design import FIRST, needed_s
from slowstep.prove.stats.plan import Plan
from slowstep.prove.time_left import TimeLeft, time_left
from slowstep.units import format_about, format_count, format_share
from slowstep.workflow.progress import TellPhase


class ProveProgress:
    """Tells it in phases; `precision` is what was asked for."""

    def __init__(self, phase: TellPhase, *, precision: float) -> None:
        self._phase, self._precision = phase, precision

    def lead_in(self, progress: Progress, limits: LeadLimits) -> None:
        """How much of the training is recorded for the diagnosis."""
        if not progress.updates:
            self._phase("starting", 0.0, FIRST_STEP)
            return
        share = min((progress.training_s or 0.0) / limits.enough_s, progress.updates / limits.updates, 1.0)
        left_s = max(limits.enough_s - (progress.training_s or 0.0), 0.0)
        # What it waits for then is not known to end.
        left = f", about {format_about(left_s)} left" if left_s and share < 1 else ""
        self._phase("recording", share, format_count(progress.updates, "step") + left)

    def started_again(self, start: int, progress: Progress) -> None:
        """That a later start of the script is on its way to the experiment."""
        reached = format_count(progress.updates, "step") if progress.updates else FIRST_STEP
        self._phase("starting", 0.0, f"start {start} of the script: {reached}")

    def testing(self, plan: Plan, interim: Interim, budget_s: float, *, start: int = 1) -> None:
        """How well gains are known, and what is left of the budget. `start` is which one of the script it is, from 1 on."""
        left = time_left(interim, precision=self._precision, budget_s=budget_s)
        widths = [(plan.arms[arm].name, found.gain.precision) for arm, found in sorted(interim.estimates.items())]
        told = widths_text(widths, left, levers=len(plan.arms) - FIRST)
        which = f"start {start}, " if start > 1 else ""
        self._phase("testing", min(interim.seconds / max(budget_s, 1e-9), 1.0), which + told)


def plan_words(plan: Plan, *, step_ms: float, precision: float, budget_s: float) -> str:
    """What will be tested, and how long that takes: the rounds of a verdict, and all of it at most."""
    levers = ", ".join(arm.name for arm in plan.arms[FIRST:])
    fewest_s = format_about(needed_s(plan, step_ms=step_ms))
    until = f"gains to within {format_share(precision)} up to {format_about(budget_s)}"
    return f"Tests {levers} in blocks of {format_count(plan.steps, 'step')} (seed {plan.seed}): a verdict takes about {fewest_s}, {until}"


def widths_text(widths: Sequence[tuple[str, float]], left: TimeLeft, *, levers: int) -> str:
    """Which round it is, how long it will take yet, and how well the gain of each arm is known by now."""
    about = format_about(left.seconds)
    of, time_words = ("", f"about {about}") if left.is_known else ("at least ", f"up to {about}")
    known = ", ".join(f"{format_share(width)} ({name})" for name, width in widths if width < 1)
    told = f"{round_words(left.round, left.rounds, levers=levers, of=of)}, {time_words} left"
    return f"{told}, gains known to within {known}" if known else told
