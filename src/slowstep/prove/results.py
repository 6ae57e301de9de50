"""What an experiment says of each lever: estimates, verdicts and what the training noted of it, put together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from slowstep.analyses.machine.load import is_busy
from slowstep.prove.arm_levers import arms_with_own_long_steps, changes_of, corrected_arms, long_steps_of, needing_cores
from slowstep.prove.arm_notes import floors, unspoilt
from slowstep.prove.choose import Choice
from slowstep.prove.experiment import Experiment
from slowstep.prove.lever_faults import given_up
from slowstep.prove.stats.design import CONTROL, FEWEST_PAIRS, FIRST
from slowstep.prove.stats.effects import NO_WORD, ArmNote, LeverWord, last_words, seldom_changed
from slowstep.prove.stats.estimates import Estimate, estimate
from slowstep.prove.stats.intervals import Interval
from slowstep.prove.stats.judging import WORTH, ArmFigures, Judgement, is_trustworthy, judge_all, refuted_under
from slowstep.prove.stats.kept import KEPT, KEPT_EACH, WithKept, kept_share, with_kept
from slowstep.prove.stats.long_steps import LongSteps
from slowstep.prove.stats.plan import Plan
from slowstep.prove.stats.readings import ExperimentSteps
from slowstep.prove.stats.repeated import RepeatedRuns
from slowstep.prove.stats.verdicts import ArmState, GainVerdict
from slowstep.reasons import SAID, Reason, Wording
from slowstep.record.experiment.lever import DEMAND, Lever, OnLongSteps
from slowstep.record.writing.format import LEVER_FAILED, LEVER_NOT_UNDONE

MORE: Final = "give a larger --budget (or a finer --precision, where that ended it)"

# Why there is no estimate.
ENDED: Final = Wording("ended-before-measured", "the experiment ended before it was measured")
NO_EFFECT: Final = Wording(
    "nothing-changed",
    f"nothing that it changes happened in the {{steps}} steps counted with it; if the script does it less often, {MORE}",
)
NOT_SWITCHED: Final = Wording("not-switched", "it could not be switched ({reason})")
NO_RUNS: Final = Wording("runs-not-compared", "{reason}; and whole runs were not compared: {why}")
NOR_IN_RUNS: Final = Wording("nor-in-own-run", "{reason}; and in a run of its own: {why}")

# Why a gain that is seen to be small refutes nothing: what its lever changes came too seldom, it may shorten long steps that were counted
# as if it did not, or what it leaves in the arm is as large as the gain in question. Others may have the cores, too (`arm_levers.py`).
SELDOM: Final = Wording(
    "changed-seldom", f"what it changes happened in only {{blocks}} of its {{rounds}} blocks, too few to refute it: {MORE}"
)
_SHORTENED: Final = (
    "not refuted, because steps of up to {most:duration} more than usual came too seldom to tell whether it shortens them, too"
)
LONG_STEPS: Final = Wording("perhaps-shortens-long-steps", _SHORTENED)
OWN_LONG_STEPS: Final = Wording("perhaps-makes-long-steps", f"{_SHORTENED}: {MORE}")
KEPT_FIRST: Final = Wording(
    "first-batch-kept",
    "as measured it gains {gain:ratio}, but the first batch of each validation is still read ({each:duration}), and without it the gain "
    "may be larger: use stub=MODULE:FUNCTION on the function that validates",
)

# Why the gain is that of the wall clock, or the corrected one.
ONLY_WALL: Final = Wording("others-used-little", "other processes used little of the machine")
UNKNOWN_LOAD: Final = Wording("others-unknown", "what other processes used of the machine is not known")
OWN_DEMAND: Final = Wording("own-core-waits", "waiting for a core is the lever's own doing")
CORRECTED: Final = Wording(
    "core-waits-left-out", "other processes used {share:share} of the machine: time spent waiting for a core is left out"
)
UNCORRECTED: Final = Wording(
    "core-waits-unknown", "other processes used {share:share} of the machine, and how long the training waited for a core is not known"
)
RERUNS: Final = Wording("whole-runs", "whole runs are compared by wall time")

# Why no gain is to be trusted.
CONTROL_CHANGED: Final = Wording(
    "control-changed", "the control, which has no lever, seemed to change the speed, so the gains may be chance too"
)
LEFT_CHANGED: Final = Wording("left-changed", "{levers} could not be undone, so what was measured afterwards is another training")
RUNS_DIFFER: Final = Wording("runs-differ", "whole runs without a lever differed from each other")


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """One arm: how it went, what was estimated and judged of it, how often its lever changed something, and what else that measured.

    Of a lever that was given up late the estimate is what it gained until then, and there is no judgement: nobody can train with it.
    `reason` is what else is to be said of its state, `why` why its gain is that of the wall clock or the corrected one, and `held_back` why
    it is not to be called refuted, None where it may be. `spoils`: a loss was not finite while it was on. `repeated` are the whole runs
    that were compared in its place, where it could not be switched.
    """

    choice: Choice
    state: ArmState
    reason: Reason | None = None
    estimate: Estimate | None = None
    judgement: Judgement | None = None
    why: Reason | None = None
    effect: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    held_back: Reason | None = None
    spoils: bool = False
    repeated: RepeatedRuns | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ExperimentResults:
    """The control, None where it was not measured, and a result for each choice; `not_undone` are notes of levers that left a change.

    `runs_differ`: whether whole runs that had no lever differed from each other.
    """

    control: Estimate | None
    results: tuple[Result, ...]
    not_undone: tuple[ArmNote, ...] = ()
    runs_differ: bool = False

    @property
    def long_steps(self) -> LongSteps | None:
        """The seldom long steps that count alike in the arms, if any."""
        found = [each.long_steps for each in (self.control, *(result.estimate for result in self.results)) if each is not None]
        return next(filter(None, found), None)

    @property
    def control_holds(self) -> bool | None:
        """Whether the control, which has no lever, gained nothing; None where it was not measured."""
        return None if self.control is None else is_trustworthy(self.control)

    @property
    def distrust(self) -> tuple[Reason, ...]:
        """Why the gains are not to be trusted; empty where nothing was seen against them."""
        reasons = []
        if self.control_holds is False:
            reasons.append(CONTROL_CHANGED())
        if self.not_undone:
            # From the change on that was left, "as it is" is another training, and how much of another nobody knows.
            reasons.append(LEFT_CHANGED(levers=", ".join(dict.fromkeys(str(note.get("name")) for note in self.not_undone))))
        if self.runs_differ:
            reasons.append(RUNS_DIFFER())
        return tuple(reasons)

    @property
    def trustworthy(self) -> bool | None:
        """Whether the gains are those of the levers; None where nothing speaks for it or against it."""
        return False if self.distrust else self.control_holds

    @property
    def reached(self) -> float | None:
        """Half the width of the widest interval of a lever, as a share; None where none was measured."""
        measured = [r for r in self.results if r.state is ArmState.MEASURED]
        known = [gain for r in measured if (gain := _known_gain(r)) is not None]
        in_runs = [r.repeated.log_ratio.interval() for r in measured if r.repeated is not None]
        return max((gain.precision for gain in known + in_runs), default=None)


def find_results(
    experiment: Experiment,
    plan: Plan,
    steps: ExperimentSteps,
    notes: Iterable[ArmNote],
    *,
    levers: Mapping[str, Lever],
    predicted_lows: Mapping[str, float],
    foreign_share: float | None,
    stolen_share: float | None = None,
) -> ExperimentResults:
    """Estimate and judge every arm. `predicted_lows` are the low ends of the findings' predicted gains, by rule; of the cores others took
    `foreign_share`, and of that the hypervisor `stolen_share`.
    """
    notes = (*notes, *_faults(experiment))
    steps, words, gone, seldom = unspoilt(steps, notes), last_words(notes), given_up(notes), seldom_changed(notes)
    choices = experiment.choices
    estimates = estimate(
        steps,
        plan,
        floors=floors(words, experiment.floor_ns, steps),
        corrected=corrected_arms(choices, levers, foreign_share),
        own_long=arms_with_own_long_steps(choices, levers),
    )
    # A lever that met nothing to change was not tried, whatever there was to be seen meanwhile.
    tried = {arm: found for arm, found in estimates.items() if seldom.get(arm) != 0}
    repeated = {arm: found for arm, choice in enumerate(choices, FIRST) if (found := experiment.repeated.levers.get(choice.name))}
    measured = _figures({arm: found for arm, found in tried.items() if arm not in gone}, repeated, words, steps)
    judgements = judge_all(measured, _predicted(choices, predicted_lows), dict.fromkeys(repeated, FEWEST_PAIRS))
    loaded = needing_cores(choices, levers, steps, foreign_share, stolen_share or 0.0)
    arms = [
        _TriedArm(
            choice=choice,
            changes=changes_of(choice, levers),
            on_long_steps=long_steps_of(choice, levers),
            word=words.get(arm, NO_WORD),
            gone=gone.get(arm),
            estimate=tried.get(arm),
            in_vain=NO_EFFECT(steps=estimates[arm].steps) if arm in estimates else ENDED(),
            runs=repeated.get(arm),
            figures=measured.get(arm),
            judgement=judgements.get(arm),
            blocks=seldom.get(arm),
            loaded=loaded.get(arm),
        )
        for arm, choice in enumerate(choices, FIRST)
    ]
    return ExperimentResults(
        control=estimates.get(CONTROL),
        results=tuple(_result(arm, foreign_share) for arm in arms),
        not_undone=tuple(note for note in notes if note.get("state") == LEVER_NOT_UNDONE),
        runs_differ=experiment.repeated.is_doubtful,
    )


def _figures(
    tried: Mapping[int, Estimate], repeated: Mapping[int, RepeatedRuns], words: Mapping[int, LeverWord], steps: ExperimentSteps
) -> dict[int, ArmFigures]:
    """The gains that are judged, by arm: of blocks, with what a lever leaves there, or of whole runs."""
    by_blocks = {
        arm: with_kept(found, found.log_ratio, kept_share(words.get(arm, NO_WORD).facts, steps, arm)) for arm, found in tried.items()
    }
    return by_blocks | {arm: found for arm, found in repeated.items() if found.rounds >= 2 and found.state is ArmState.MEASURED}


def _predicted(choices: Sequence[Choice], lows: Mapping[str, float]) -> dict[int, float]:
    """The low ends of the predicted gains, by arm, of the levers that are the fix or its bound."""
    rules = {arm: choice.rule for arm, choice in enumerate(choices, FIRST) if choice.role != "other"}
    return {arm: lows[rule] for arm, rule in rules.items() if rule is not None and rule in lows}


def _faults(experiment: Experiment) -> list[ArmNote]:
    """The levers that the script could not go on with, as if they had noted it themselves."""
    reasons = {fault.choice.name: fault.reason for fault in experiment.faults}
    return [
        {"arm": arm, "name": choice.name, "state": LEVER_FAILED, "reason": reasons[choice.name]}
        for arm, choice in enumerate(experiment.choices, FIRST)
        if choice.name in reasons
    ]


def verdict_on_bound(judgement: Judgement, predicted_low: float | None) -> GainVerdict:
    """What a lever that does more than the fix says of the fix: that it gains is no proof for it, that it gains less than predicted is one
    against it.
    """
    if judgement.verdict != GainVerdict.PROVED:
        return judgement.verdict
    is_enough = judgement.interval.high >= refuted_under(predicted_low) or not judgement.may_refute
    return GainVerdict.UPPER_BOUND if is_enough else GainVerdict.REFUTED


@dataclass(frozen=True, kw_only=True, slots=True)
class _TriedArm:
    """All that is known of one arm: what its lever changes and does to long steps, its last word, with what it was given up (None where it
    was not), and what was measured of it.

    `in_vain` is why there is no `estimate` by blocks where the lever itself says nothing against it; `blocks` are those in which it
    changed something, where they are too few; `loaded` is what others took of the cores that it asks for.
    """

    choice: Choice
    changes: tuple[str, ...]
    on_long_steps: OnLongSteps
    word: LeverWord
    gone: ArmNote | None
    estimate: Estimate | None
    in_vain: Reason
    runs: RepeatedRuns | None
    figures: ArmFigures | None
    judgement: Judgement | None
    blocks: int | None
    loaded: Reason | None

    @property
    def compared_runs(self) -> RepeatedRuns | None:
        """The whole runs that stand in the place of its blocks: those that it was in until it refused say less."""
        return self.runs if self.runs is not None and self.runs.rounds >= 2 else None

    @property
    def by_blocks(self) -> Estimate | None:
        """What counts of its blocks."""
        return None if self.compared_runs is not None else self.estimate

    @property
    def facts(self) -> Mapping[str, Any]:
        """What else its lever measured."""
        return self.word.facts if self.runs is None else self.runs.facts


def _result(arm: _TriedArm, foreign_share: float | None) -> Result:
    state, reason = _went(arm)
    return Result(
        choice=arm.choice,
        state=state,
        reason=reason,
        estimate=arm.by_blocks,
        judgement=arm.judgement,
        why=_why(arm, foreign_share),
        effect=arm.runs.effect if arm.runs is not None and arm.runs.rounds else arm.word.effect,
        facts=arm.facts,
        changes=arm.changes,
        held_back=_held_back(arm),
        spoils=arm.gone is not None and arm.gone.get("not_finite") is not None,
        repeated=arm.compared_runs,
    )


def _went(arm: _TriedArm) -> tuple[ArmState, Reason | None]:
    """How it went, and what is to be said of that. Why a lever could not be switched is told whatever its runs say."""
    state: ArmState
    reason: Reason | None
    if arm.gone is not None:
        state, reason = ArmState(arm.gone["state"]), _as_reason(arm.gone.get("reason"))
    elif arm.estimate is None:
        state, reason = ArmState.UNMEASURED, arm.in_vain
    else:
        state, reason = ArmState.MEASURED, None
    if arm.runs is None:
        return state, reason
    if arm.runs.state is ArmState.MEASURED:
        return ArmState.MEASURED, NOT_SWITCHED(reason=reason)
    if arm.runs.state is ArmState.UNMEASURED:
        return state, NO_RUNS(reason=reason, why=arm.runs.reason)
    return arm.runs.state, NOR_IN_RUNS(reason=reason, why=arm.runs.reason)


def _as_reason(reason: Any) -> Reason:
    """What a lever noted in words of its own, or what was noted of it."""
    return reason if isinstance(reason, Reason) else SAID(said=str(reason))


def _held_back(arm: _TriedArm) -> Reason | None:
    """Why it is not to be refuted: others took cores, its lever changed something in too few blocks, it may shorten long steps, or without
    what it leaves a gain would be seen.
    """
    if arm.loaded is not None:
        return arm.loaded
    if arm.blocks is not None and arm.by_blocks is not None:
        return SELDOM(blocks=arm.blocks, rounds=arm.by_blocks.rounds)
    if (long_steps := _perhaps_shortened(arm)) is not None:
        # Steps that a lever takes away are seen to be gone once there are more of them; how much shorter they got is not.
        return (OWN_LONG_STEPS if arm.on_long_steps is OnLongSteps.OWN else LONG_STEPS)(most=long_steps.most_ns)
    if isinstance(arm.figures, WithKept) and arm.figures.hides(WORTH) and KEPT_EACH in arm.facts:
        return KEPT_FIRST(gain=arm.figures.log_ratio.least.factor, each=arm.facts[KEPT_EACH])
    return None


def _perhaps_shortened(arm: _TriedArm) -> LongSteps | None:
    """Long steps that were counted alike, where the lever may shorten them, and would then perhaps gain."""
    if arm.by_blocks is None or arm.judgement is None or arm.on_long_steps is OnLongSteps.KEPT:
        return None
    found = arm.by_blocks.long_steps
    return found if found is not None and found.gain_without(arm.judgement.interval.high) >= WORTH else None


def _why(arm: _TriedArm, foreign_share: float | None) -> Reason | None:
    """Why the gain is that of the wall clock, or the corrected one; None where there is none."""
    if arm.compared_runs is not None:
        return RERUNS()
    if arm.by_blocks is None:
        return None
    if foreign_share is None:
        return UNKNOWN_LOAD()
    if not is_busy(foreign_share):
        return ONLY_WALL()
    if DEMAND in arm.changes:
        return OWN_DEMAND()
    return (CORRECTED if arm.by_blocks.uses_corrected else UNCORRECTED)(share=foreign_share)


def _known_gain(result: Result) -> Interval | None:
    """The gain of an arm as it is known: with what its lever leaves there it is less well known than it was measured."""
    if result.judgement is not None and result.facts.get(KEPT):
        return result.judgement.interval
    return None if result.estimate is None else result.estimate.gain
