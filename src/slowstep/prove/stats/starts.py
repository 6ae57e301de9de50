"""Several starts of a script as one experiment: the rounds of each behind those of the one before. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slowstep.prove.stats.carried import before, carried_on
from slowstep.prove.stats.plan import Plan
from slowstep.prove.stats.readings import ExperimentSteps, after_each_other


@dataclass(frozen=True, kw_only=True, slots=True)
class StartedPlan:
    """The plan that one start walked, or several as one, the steps of it, and what levers noted meanwhile."""

    plan: Plan
    steps: ExperimentSteps
    notes: tuple[Mapping[str, Any], ...] = ()

    @property
    def rounds(self) -> int:
        """Rounds that were begun. What the last one lacks is in no estimate."""
        return 0 if not len(self.steps.block) else int(self.steps.block.max()) // len(self.plan.arms) + 1

    def followed_by(self, plan: Plan) -> Plan:
        """The plan of all, where the next start walks this one: of the same arms, in blocks of as many steps."""
        blocks = self.plan.blocks[: self._begun]
        begins = (*self.plan.begins, self.rounds) if self.rounds else ()
        return replace(self.plan, blocks=(*blocks, *plan.blocks), begins=begins, process=None)

    def with_next(self, start: StartedPlan) -> StartedPlan:
        """Both as one."""
        return StartedPlan(
            plan=self.followed_by(start.plan), steps=self.with_next_steps(start.steps), notes=self.with_next_notes(start.notes)
        )

    def with_next_steps(self, steps: ExperimentSteps) -> ExperimentSteps:
        """The steps of both, where those are of the next start."""
        return after_each_other(self.steps, replace(steps, block=steps.block + self._begun))

    def with_next_notes(self, notes: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
        """The notes of both."""
        return (*self.notes, *carried_on(notes, before(self.notes, self._begun)))

    @property
    def _begun(self) -> int:
        """Blocks of those rounds."""
        return self.rounds * len(self.plan.arms)


def as_one(starts: Sequence[StartedPlan]) -> StartedPlan:
    """All of them, of which there is one at least."""
    first, *later = starts
    for start in later:
        first = first.with_next(start)
    return first
