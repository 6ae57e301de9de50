"""A later start of a script that ended before its experiment did: warmed up, then its rounds behind those that were measured before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slowstep.prove.executor import Ending, Executor, Progress
from slowstep.prove.first_updates import start_up
from slowstep.prove.lever_faults import given_up
from slowstep.prove.stats.design import round_seconds, schedule
from slowstep.prove.stats.plan import Plan
from slowstep.prove.stats.readings import ExperimentSteps
from slowstep.prove.stats.starts import StartedPlan


@dataclass(frozen=True, kw_only=True, slots=True)
class StartCost:
    """What a start takes before it measures: seconds until its first update, the warm-up's steps, and the length of a step in ms."""

    startup_s: float
    warmup_steps: int
    step_ms: float

    def worth_s(self, plan: Plan) -> float:
        """The seconds with which another start comes to one round."""
        warmup_s = self.warmup_steps * self.step_ms / 1000
        return self.startup_s + warmup_s + round_seconds(len(plan.arms) - len(plan.given_up), plan.steps, self.step_ms, plan.uncounted)


def drawn_anew(plan: Plan, number: int, notes: Iterable[Mapping[str, Any]] = ()) -> Plan:
    """The same plan for a start with this number (from 2 on), in an order of its own, without the arms that were given up before by the
    `notes` of levers: their steps would be left out of every estimate.
    """
    arms = len(plan.arms)
    blocks = schedule(arms, len(plan.blocks) // arms, plan.seed + number - 1)
    return replace(plan, blocks=blocks, process=None, begins=(), given_up=tuple(sorted(given_up(notes))))


class NoTimeLeft(Exception):
    """The budget ended before the warm-up did."""


def warmed_up(
    executor: Executor,
    steps: int,
    *,
    start_s: float,
    left_s: float,
    tell: Callable[[Progress], None],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> Progress | None:
    """Wait until a training that was started has made its warm-up; None where it ended before. Raises NeverTrained as `start_up` does, and
    NoTimeLeft after `left_s` seconds, warm or not.
    """
    began_s = clock()
    for progress, _ in start_up(executor, start_s, clock=clock, sleep=sleep):
        tell(progress)
        if clock() - began_s >= left_s:
            raise NoTimeLeft
        if progress.updates > steps:
            return progress
    return None


class LaterStart:
    """An executor (`Executor`) for the plan of all starts together: it has the training walk the last one's part of it.

    `before` is what was measured until now, `plan` what this start walks.
    """

    def __init__(self, executor: Executor, before: StartedPlan, plan: Plan) -> None:
        self.folder: Path = executor.folder
        self._executor, self._before, self.own = executor, before, plan
        # As they were when it was last looked at.
        self.updates = 0

    @property
    def so_far(self) -> StartedPlan:
        """All that was measured, in this start and before it."""
        own = StartedPlan(plan=self.own, steps=self._executor.steps(), notes=tuple(self._executor.lever_notes()))
        return self._before.with_next(own)

    def start(self) -> None:
        """Start it."""
        self._executor.start()

    def poll(self) -> Progress:
        """How far it is."""
        progress = self._executor.poll()
        self.updates = progress.updates
        return progress

    def post(self, plan: Plan) -> None:
        """Have it walk its own part of the plan."""
        self._executor.post(self.own)

    def steps(self) -> ExperimentSteps:
        """The steps of all starts."""
        return self._before.with_next_steps(self._executor.steps())

    def lever_notes(self) -> list[dict[str, Any]]:
        """What became of the levers in all of them."""
        return [dict(note) for note in self._before.with_next_notes(self._executor.lever_notes())]

    def notes(self, kind: str) -> list[dict[str, Any]]:
        """The lines of a kind in the notes of this start."""
        return self._executor.notes(kind)

    def end(self) -> Ending:
        """Kill all that belongs to it."""
        return self._executor.end()
