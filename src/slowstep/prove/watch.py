"""Looks at a running experiment: how far it is, how sure the gains are by now, and whether it is time to end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from slowstep.prove.ended_by import EndedBy
from slowstep.prove.executor import Ending, Executor, Progress
from slowstep.prove.lever_faults import given_up
from slowstep.prove.outcome import ExperimentOutcome, Interim
from slowstep.prove.stats.design import CONTROL
from slowstep.prove.stats.effects import seldom_changed
from slowstep.prove.stats.estimates import Estimate, estimate
from slowstep.prove.stats.judging import is_precise
from slowstep.prove.stats.plan import Plan
from slowstep.prove.stats.readings import ExperimentSteps
from slowstep.prove.stats.rounds import sum_rounds
from slowstep.record.writing.format import LEVER_SPOILT, PLAN_DONE, PLAN_TAKEN

# A plan is taken up at the next boundary: so long a validation or a compilation may lie before it.
TAKE_UP_S: Final = 60.0
# A training that ends no step for so long, and for ten times its longest step, stands still.
STILL_S: Final = 60.0
STILL_STEPS: Final = 10


class ExperimentWatch:
    """One running experiment. Whoever looks takes time from the training, and most from levers that want more cores: gains are estimated
    when a round is done, roughly at first, and with all the work only where that is precise enough to end.
    """

    def __init__(
        self,
        executor: Executor,
        plan: Plan,
        *,
        floors: Mapping[int, float] | None,
        corrected: Callable[[], Collection[int]],
        own_long: Collection[int],
        clock: Callable[[], float],
    ) -> None:
        self._executor, self._plan, self._clock = executor, plan, clock
        self._floors, self._corrected, self._own_long = floors, corrected, own_long
        self._posted_s = self._moved_s = self._looked_s = clock()
        self._taken_s: float | None = None
        self._steps = self._rounds = 0
        self._longest_s = 0.0
        self._estimates: dict[int, Estimate] = {}
        self._is_rough = False
        self._gone: frozenset[int] = frozenset()

    def look(self, precision: float, budget_s: float, min_rounds: int) -> EndedBy | None:
        """Look once. Returns why it is time to end, None where it is not."""
        progress = self._executor.poll()
        self._looked_s = self._clock()
        if progress.plan >= PLAN_TAKEN:
            if self._taken_s is None:
                self._taken_s = self._moved_s = self._looked_s
                self._longest_s = (progress.training_s or 0.0) / max(progress.updates, 1)
            self._follow(self._executor.steps())
        if self._is_precise(precision, min_rounds):
            return EndedBy.NARROW_ENOUGH
        return self._outside(progress) or self._within(budget_s)

    def interim(self) -> Interim:
        """How it stands."""
        return Interim(seconds=self._seconds(), rounds=self._rounds, estimates=self._estimates)

    def outcome(self, ended_by: EndedBy, ending: Ending) -> ExperimentOutcome:
        """What was found, from all steps that were written until the end."""
        steps = self._executor.steps()
        self._estimate(steps)
        return ExperimentOutcome(
            estimates=self._estimates,
            notes=tuple(self._executor.lever_notes()),
            ended_by=ended_by,
            ending=ending,
            steps=steps,
            seconds=self._seconds(),
        )

    def _is_precise(self, precision: float, min_rounds: int) -> bool:
        """Whether nothing more is to be waited for. Before what a lever changes has come, intervals are narrow because it has not."""
        if not self._are_narrow(precision, min_rounds):
            return False
        if self._is_rough:
            self._estimate(self._executor.steps())
            if not self._are_narrow(precision, min_rounds):
                return False
        return not self._estimates.keys() & seldom_changed(self._executor.lever_notes()).keys()

    def _are_narrow(self, precision: float, min_rounds: int) -> bool:
        return self._measured() <= self._estimates.keys() and is_precise(self._estimates, precision, min_rounds=min_rounds)

    def _outside(self, progress: Progress) -> EndedBy | None:
        """Why the training gives no more steps."""
        if progress.plan == PLAN_DONE:
            is_spoilt = any(note.get("state") == LEVER_SPOILT for note in self._executor.lever_notes())
            return EndedBy.LOSS_NOT_FINITE if is_spoilt else EndedBy.PLAN_DONE
        if progress.problem is not None:
            return EndedBy.CUT_SHORT
        if not progress.alive:
            return EndedBy.SCRIPT_ENDED if progress.updates else EndedBy.NEVER_TRAINED
        if self._taken_s is None and self._looked_s - self._posted_s > TAKE_UP_S:
            return EndedBy.NOT_TAKEN_UP if progress.updates else EndedBy.NEVER_TRAINED
        return None

    def _within(self, budget_s: float) -> EndedBy | None:
        """Why no more are waited for."""
        if self._taken_s is None:
            return None
        if self._seconds() >= budget_s:
            return EndedBy.BUDGET_SPENT
        if self._looked_s - self._moved_s > max(STILL_S, STILL_STEPS * self._longest_s):
            return EndedBy.STOOD_STILL
        levers = {arm for arm in range(len(self._plan.arms)) if self._plan.arms[arm].levers}
        return EndedBy.NO_LEVER_LEFT if levers and levers <= self._gone else None

    def _follow(self, steps: ExperimentSteps) -> None:
        if len(steps.ns) > self._steps:
            self._moved_s, self._steps = self._looked_s, len(steps.ns)
            self._longest_s = max(self._longest_s, float(steps.ns.max()) / 1e9)
        done = sum_rounds(steps, self._plan).done()
        self._gone = self._given_up()
        if done > self._rounds:
            self._rounds = done
            self._estimate(steps, rough=True)

    def _estimate(self, steps: ExperimentSteps, *, rough: bool = False) -> None:
        self._gone, self._is_rough = self._given_up(), rough
        found = estimate(steps, self._plan, floors=self._floors, corrected=self._corrected(), own_long=self._own_long, rough=rough)
        self._estimates = {arm: of for arm, of in found.items() if arm not in self._gone}

    def _given_up(self) -> frozenset[int]:
        return frozenset(given_up(self._executor.lever_notes()))

    def _measured(self) -> set[int]:
        """The arms that there are to be measured."""
        return set(range(CONTROL, len(self._plan.arms))) - self._gone

    def _seconds(self) -> float:
        return 0.0 if self._taken_s is None else self._looked_s - self._taken_s
