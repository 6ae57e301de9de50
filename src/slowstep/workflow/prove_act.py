"""One experiment from its lead-in to its report, with a training that something else starts and ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from slowstep.errors import NothingRecorded, SlowstepError
from slowstep.prove.arm_levers import arms_with_own_long_steps, corrected_arms
from slowstep.prove.choose import Chosen, choose_all, choose_asked, choose_named
from slowstep.prove.ended_by import EndedBy
from slowstep.prove.executor import Ending, Executor, surely_ended
from slowstep.prove.experiment import Experiment, SandboxPlace, save
from slowstep.prove.lead_in import LeadIn, LeadLimits, lead_in
from slowstep.prove.lever_faults import cause_of, find_faults
from slowstep.prove.numerics_check import Checked
from slowstep.prove.outcome import ExperimentOutcome, Interim
from slowstep.prove.patch.noted import find_changes
from slowstep.prove.recorded import foreign_share
from slowstep.prove.runner import run
from slowstep.prove.stats.design import FIRST, MIN_ROUNDS, doubts, draw_seed, make_plan, needed_s, round_seconds
from slowstep.prove.stats.effects import last_words
from slowstep.prove.stats.plan import Plan
from slowstep.prove.stats.repeated import AllRepeated
from slowstep.prove.step_pace import StepPace, find_pace, receipt_ns
from slowstep.reason_words import sentence
from slowstep.record.experiment.implementations import can_build
from slowstep.record.experiment.lever import OWN_ERROR, Lever
from slowstep.record.launching.folder import holds_nothing, kept_words
from slowstep.report.json import REPORT_FILE, write
from slowstep.units import format_count, format_duration
from slowstep.workflow.diagnose_recordings import diagnose_recording
from slowstep.workflow.fresh_start import FreshStart
from slowstep.workflow.progress import TellPhase
from slowstep.workflow.prove_ended import TOO_EARLY, Ended, why_nothing
from slowstep.workflow.prove_progress import ProveProgress, plan_words
from slowstep.workflow.prove_request import ProveRequest
from slowstep.workflow.prove_starts import (
    NOT_AGAIN,
    LaterStarts,
    MakeStart,
    Reached,
    cost_of_start,
    may_start_again,
    reached_by_first,
    why_not_again,
)
from slowstep.workflow.usual import longer_budget_s

ReportDict = dict[str, Any]


# Finds out, once the experiment is over, what levers do to the input and the losses, by lever; of its report, and of where the script
# builds the loader that feeds the training.
CheckLosses = Callable[[ReportDict, int | None], Checked]

# Measures, in runs of their own, the levers that the training refused; by its report, the levers' notes and a seed.
Rerun = Callable[[ReportDict, Sequence[Mapping[str, Any]], int], AllRepeated]


class ProveAct:
    """Makes the experiment. The training is ended whatever happens, and what was measured until then is reported."""

    def __init__(
        self,
        executor: Executor,
        asked: ProveRequest,
        *,
        levers: Mapping[str, Lever],
        place: SandboxPlace,
        say: Callable[[str], None],
        phase: TellPhase,
        limits: LeadLimits | None = None,
        check: CheckLosses | None = None,
        rerun: Rerun | None = None,
        without_fault: FreshStart | None = None,
        later: MakeStart | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._executor, self._asked, self._levers = executor, asked, levers
        self._say, self._told, self._limits = say, ProveProgress(phase, precision=asked.precision), limits or LeadLimits()
        self._check, self._rerun, self._clock, self._sleep = check, rerun, clock, sleep
        self._without_fault, self._later = without_fault, later
        # The start that came to a plan last.
        self._walked: Executor = executor
        self._reason: str | None = None
        self._ended_by_user: EndedBy | None = None
        self._plan: Plan | None = None
        self._lead: LeadIn | None = None
        self._outcome: ExperimentOutcome | None = None
        self._seed = draw_seed() if asked.seed is None else asked.seed
        self._left_s, self._step_ms = asked.budget_s, 0.0
        self._experiment = Experiment(
            choices=(),
            untried=(),
            precision=asked.precision,
            budget_s=asked.budget_s,
            place=place,
            ended_by=EndedBy.SCRIPT_ENDED,
            options=asked.options,
            kept=asked.kept,
        )

    def run(self) -> Ended:
        """Make it; where the script cannot go on with a lever, once more without that one.

        Raises CommandNotStarted where the command cannot be started: nothing is left of it then.
        """
        try:
            self._executor.start()
        except KeyboardInterrupt:
            return Ended(report=None, ended_by=EndedBy.INTERRUPTED, exit_code=None, reason=TOO_EARLY, left_nothing=True)
        ending = self._to_its_end()
        try:
            return self._reported(self._ended_without_faults(ending))
        except KeyboardInterrupt:
            # What was measured is in the recording: only nobody sees it here.
            reason = f"the report was interrupted. {kept_words(str(self._executor.folder))}"
            return replace(self._ended_as(ending), ended_by=EndedBy.INTERRUPTED, reason=reason)

    def _ended_without_faults(self, ending: Ending) -> Ending:
        """The same end, or that of another start where the training could not go on with a lever and it is worth one."""
        while self._has_fault(ending) and self._without_fault is not None and not self._experiment.starts:
            first, executor = self._experiment, self._executor
            if not self._is_worth_without():
                break
            later = self._started_without_fault(self._without_fault)
            if later is None:
                # What was known by then is better than nothing.
                self._experiment, self._executor = replace(first, ended_by=self._ended_by_user or first.ended_by), executor
                self._without_fault.back()
                self._keep()
                break
            self._without_fault.forget()
            ending = later
        return ending

    def _started_without_fault(self, fresh: FreshStart) -> Ending | None:
        """Another start, without the lever at fault, to its end; None where it came to no plan."""
        try:
            self._executor = fresh.start()
            self._executor.start()
            ending = self._to_its_end()
        except (SlowstepError, OSError) as error:
            self._say(f"It could not be started again: {error}")
            return None
        except KeyboardInterrupt:
            self._ended_by_user = EndedBy.INTERRUPTED
            return None
        self._ended_by_user = EndedBy.INTERRUPTED if self._experiment.ended_by == EndedBy.INTERRUPTED else None
        return ending if self._plan is not None else None

    def _to_its_end(self) -> Ending:
        """What has been started, to its end; where that is before the experiment's, with as many later starts as it takes."""
        self._plan = self._outcome = self._lead = None
        self._walked = self._executor
        try:
            self._go_on(
                lead_in(self._executor, self._diagnose, self._told.lead_in, limits=self._limits, clock=self._clock, sleep=self._sleep)
            )
        except KeyboardInterrupt:
            self._keep(ended_by=EndedBy.INTERRUPTED)
        finally:
            ending = surely_ended(self._executor)
        self._keep(exit_code=None if ending.killed else ending.exit_code, problem=ending.problem)
        if ending.interrupted:
            self._keep(ended_by=EndedBy.INTERRUPTED)
        if ending.problem is not None and self._experiment.ended_by == EndedBy.SCRIPT_ENDED:
            # In the lead-in nobody asked why: it did not end by itself.
            self._keep(ended_by=EndedBy.CUT_SHORT)
        try:
            return self._with_later_starts(ending)
        except KeyboardInterrupt:
            self._keep(ended_by=EndedBy.INTERRUPTED)
            return ending

    def _with_later_starts(self, ending: Ending) -> Ending:
        """The same end, or that of the last start where the script came to its own before the gains were known."""
        report = None if self._lead is None else self._lead.report
        if self._later is None or report is None or not may_start_again(self._experiment, report, ending):
            return ending
        if (why := why_not_again(self._experiment, self._executor.notes("health"))) is not None:
            self._say(NOT_AGAIN.format(steps=format_count(self._executor.poll().updates, "step"), why=why))
            return ending
        chosen = self._chosen_before()
        plan = self._plan or self._made_plan(report, chosen)
        self._keep(ended_by=EndedBy.RUNNING)
        reached = LaterStarts(
            self._later,
            lambda executor, plan, budget_s, tell: self._walk(executor, plan, budget_s, tell, report=report, chosen=chosen),
            self._told,
            say=self._say,
            start_s=self._limits.start_s,
            clock=self._clock,
            sleep=self._sleep,
        ).go_on(plan, cost_of_start(report), reached_by_first(self._executor, plan, ending, self._left_s))
        return self._kept_reached(reached)

    def _kept_reached(self, reached: Reached) -> Ending:
        """The end of the last start, once all that was reached is kept."""
        self._left_s, self._walked = reached.left_s, reached.walked or self._walked
        self._outcome = reached.outcome or self._outcome
        exit_code = None if reached.ending.killed else reached.ending.exit_code
        self._keep(
            ended_by=reached.ended_by,
            exit_code=exit_code,
            problem=reached.ending.problem,
            starts=reached.starts if reached.starts[1:] else (),
        )
        return reached.ending

    def _has_fault(self, ending: Ending) -> bool:
        """Whether the training could not go on with a lever: it failed while that was on, or was spoilt by it. That is kept then."""
        if self._plan is None or self._experiment.ended_by == EndedBy.INTERRUPTED:
            return False
        # Of the last start alone: what an earlier one noted of a lever is of other steps.
        told = (self._walked.notes("arm"), self._walked.notes("lever"))
        faults = find_faults(self._experiment.choices, *told, ending, self._walked.notes(OWN_ERROR))
        for fault in faults:
            self._say(f"{fault.choice.name}: {sentence(fault.reason)}")
        if faults:
            self._keep(
                faults=(*self._experiment.faults, *faults), ended_by=EndedBy.LEVER_ENDED if cause_of(ending) else self._experiment.ended_by
            )
        return bool(faults)

    def _is_worth_without(self) -> bool:
        """Whether there are levers that nothing can be said of yet, and time left for the rounds that a verdict takes."""
        ended, plan, outcome = {fault.choice.name for fault in self._experiment.faults}, self._plan, self._outcome
        assert plan is not None
        known = {} if outcome is None else outcome.estimates
        left = tuple(choice for choice in self._experiment.choices if choice.name not in ended)
        unknown = [
            choice
            for arm, choice in enumerate(self._experiment.choices, FIRST)
            if choice in left and (arm not in known or known[arm].rounds < MIN_ROUNDS)
        ]
        needed_s = MIN_ROUNDS * round_seconds(len(left) + FIRST, plan.steps, self._step_ms, plan.uncounted)
        if not unknown or needed_s > self._left_s:
            return False
        self._say(f"Starts again without it, for the remaining {format_duration(self._left_s * 1e9)}")
        self._keep(choices=left, until_ns=None, ended_by=EndedBy.SCRIPT_ENDED)
        return True

    def _go_on(self, lead: LeadIn) -> None:
        self._reason, self._lead = lead.reason, lead
        if lead.report is not None:
            chosen = self._choose(lead.report) if not self._experiment.faults else self._chosen_before()
            self._keep(choices=chosen.choices, untried=chosen.untried)
        if lead.how == "ended":
            # All of it is lead-in: nothing is to be left out.
            self._keep(until_ns=None, ended_by=EndedBy.SCRIPT_ENDED)
        elif lead.report is None:
            self._keep(ended_by=EndedBy.NEVER_TRAINED)
        elif not chosen.choices:
            self._keep(ended_by=EndedBy.NOTHING_TO_TRY)
        else:
            self._try_out(lead.report, chosen)

    def _try_out(self, report: ReportDict, chosen: Chosen) -> None:
        # Of several ranks the steps of the one that the report is of are compared.
        plan = replace(self._made_plan(report, chosen), process=report["run"].get("pid"))
        self._keep(ended_by=EndedBy.RUNNING)
        budget_s = self._left_s
        outcome = self._walk(
            self._executor, plan, budget_s, lambda interim: self._told.testing(plan, interim, budget_s), report=report, chosen=chosen
        )
        self._outcome, self._left_s = outcome, max(self._left_s - outcome.seconds, 0.0)
        self._keep(ended_by=outcome.ended_by)

    def _made_plan(self, report: ReportDict, chosen: Chosen) -> Plan:
        """The plan of the experiment; what it is, and what it cannot do, is said."""
        builds_loaders = any(can_build(choice.spec.name) for choice in chosen.choices)
        pace = find_pace(report, epochs_first=builds_loaders)
        plan = make_plan(chosen.arms, seed=self._seed, budget_s=self._left_s, **asdict(pace))
        self._plan, self._step_ms = plan, pace.step_ms
        self._say(plan_words(plan, step_ms=pace.step_ms, precision=self._asked.precision, budget_s=self._left_s))
        self._keep(floor_ns=receipt_ns(report), needed_s=self._needed_s(plan, pace))
        return plan

    def _walk(
        self, executor: Executor, plan: Plan, budget_s: float, tell: Callable[[Interim], None], *, report: ReportDict, chosen: Chosen
    ) -> ExperimentOutcome:
        """Have a training walk a plan, to the end of either."""
        return run(
            executor,
            plan,
            precision=self._asked.precision,
            budget_s=budget_s,
            on_progress=tell,
            corrected=lambda: corrected_arms(chosen.choices, self._levers, self._foreign_share(report)),
            own_long=arms_with_own_long_steps(chosen.choices, self._levers),
            clock=self._clock,
            sleep=self._sleep,
        )

    def _needed_s(self, plan: Plan, pace: StepPace) -> float:
        """The shortest budget of such a plan; where it was given a shorter one, what to do is said."""
        step_ms, period_steps = pace.step_ms, pace.period_steps
        needed = needed_s(plan, step_ms=step_ms, period_steps=period_steps)
        advised_s = longer_budget_s(self._asked.budget_s, needed)
        for doubt in doubts(plan, step_ms=step_ms, period_steps=period_steps, budget_s=self._left_s, advised_s=advised_s):
            self._say(doubt)
        return needed

    def _chosen_before(self) -> Chosen:
        return Chosen(choices=self._experiment.choices, untried=self._experiment.untried)

    def _choose(self, report: ReportDict) -> Chosen:
        if self._asked.everything:
            return choose_all(report, self._levers)
        if self._asked.levers:
            return choose_asked(self._asked.levers, report, self._levers)
        return choose_named(report["findings"], self._levers, report["not_judged"])

    def _foreign_share(self, report: ReportDict) -> float | None:
        """What others take of the machine since the experiment began, as reports see it; until that is known, at the end of the lead-in.

        By that alone it stopped at a precision that the report of a machine that they had left did not have.
        """
        folder, cores, until_ns = self._executor.folder, report["run"].get("cores"), self._experiment.until_ns
        share = foreign_share(folder, until_ns, cores)
        # A first start that ended in its lead-in is all lead-in.
        before_ns = 0 if until_ns is None else until_ns - int(self._limits.enough_s * 1e9)
        return foreign_share(folder, before_ns, cores) if share is None else share

    def _diagnose(self, until_ns: int) -> ReportDict:
        self._keep(until_ns=until_ns)
        return diagnose_recording(self._executor.folder)

    def _keep(self, **changes: Any) -> None:
        self._experiment = replace(self._experiment, **changes)
        save(self._experiment, self._executor.folder)

    def _keep_changes(self) -> None:
        """What the levers would be in the script, by what is known of them now."""
        experiment, executor = self._experiment, self._walked
        words = last_words(executor.lever_notes())
        facts = {choice.name: words[arm].facts for arm, choice in enumerate(experiment.choices, FIRST) if arm in words}
        facts |= {name: found.facts for name, found in experiment.repeated.levers.items() if found.facts}
        is_copied = experiment.place.kind == "copy"
        made = executor.notes("made") or self._executor.notes("made")
        self._keep(changes=find_changes(facts, made, Path.cwd(), is_copied=is_copied))

    def _ended_as(self, ending: Ending) -> Ended:
        """What is known of its end without a report."""
        return Ended(
            report=None,
            ended_by=self._experiment.ended_by,
            exit_code=self._experiment.exit_code,
            reason=ending.problem or self._reason,
            output=ending.output if self._experiment.exit_code else "",
        )

    def _reported(self, ending: Ending) -> Ended:
        ended = self._ended_as(ending)
        self._keep_changes()
        try:
            report = diagnose_recording(self._executor.folder)
        except NothingRecorded as error:
            return replace(ended, reason=why_nothing(ended, ending, error), left_nothing=self._left_nothing(ended))
        if self._rerun is not None and ended.ended_by != EndedBy.INTERRUPTED:
            report = self._rerun_refused(report, self._rerun)
            ended = replace(ended, ended_by=self._experiment.ended_by)
        if (
            self._check is not None
            and ended.ended_by != EndedBy.INTERRUPTED
            and (checked := self._check(report, self._loader_place())).by_lever
        ):
            self._keep(numerics=checked.by_lever, **({"ended_by": EndedBy.INTERRUPTED} if checked.interrupted else {}))
            report, ended = diagnose_recording(self._executor.folder), replace(ended, ended_by=self._experiment.ended_by)
        write(report, self._executor.folder / REPORT_FILE)
        return replace(ended, report=report, changes=self._experiment.changes)

    def _loader_place(self) -> int | None:
        """Where the script builds the loader that feeds the training, as the training noted it; None where that is not known."""
        made = self._walked.notes("made") or self._executor.notes("made")
        return next((note.get("loader_place") for note in made[-1:]), None)

    def _left_nothing(self, ended: Ended) -> bool:
        return ended.ended_by == EndedBy.INTERRUPTED or holds_nothing(str(self._executor.folder))

    def _rerun_refused(self, report: ReportDict, rerun: Rerun) -> ReportDict:
        found = rerun(report, self._walked.lever_notes(), self._seed)
        if not found.levers:
            return report
        self._keep(repeated=found, **({"ended_by": EndedBy.INTERRUPTED} if found.interrupted else {}))
        self._keep_changes()
        return diagnose_recording(self._executor.folder)
