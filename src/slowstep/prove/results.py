"""What an experiment says of each lever: estimates, verdicts and what the training noted of it, put together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from slowstep.analyses.machine.load import is_busy
from slowstep.prove.arm_levers import arms_with_own_long_steps, changes_of, corrected_arms, long_steps_of, needing_cores
from slowstep.prove.arm_notes import NOT_UNDONE, ArmNote, by_arm, floors, last_effect, last_facts, unspoilt
from slowstep.prove.choose import Choice
from slowstep.prove.experiment import Experiment
from slowstep.prove.lever_faults import GIVEN_UP, given_up
from slowstep.prove.stats.design import CONTROL, FEWEST_PAIRS, FIRST
from slowstep.prove.stats.effects import seldom_changed
from slowstep.prove.stats.estimates import Estimate, estimate
from slowstep.prove.stats.intervals import Interval
from slowstep.prove.stats.judging import WORTH, ArmFigures, Judgement, is_trustworthy, judge_all, refuted_under
from slowstep.prove.stats.kept import KEPT, KEPT_EACH, WithKept, kept_share, with_kept
from slowstep.prove.stats.long_steps import LongSteps
from slowstep.prove.stats.plan import Plan
from slowstep.prove.stats.readings import ExperimentSteps
from slowstep.prove.stats.repeated import ArmState, RepeatedRuns
from slowstep.prove.stats.verdicts import GainVerdict
from slowstep.record.experiment.lever import DEMAND, Lever
from slowstep.units import format_duration, format_ratio, format_share

# Why a gain that is seen to be small refutes nothing: others have the cores that the lever asks for, what it changes came too seldom, it
# may shorten long steps that were counted as if it did not, or what it leaves in the arm is as large as the gain in question.
HeldBack = Literal["load", "seldom", "long steps", "kept"]
ENDED: Final = "the experiment ended before it was measured"
ONLY_WALL: Final = "other processes used little of the machine"
UNKNOWN_LOAD: Final = "what other processes used of the machine is not known"
OWN_DEMAND: Final = "waiting for a core is the lever's own doing"
CORRECTED: Final = "other processes used {share} of the machine: time spent waiting for a core is left out"
RERUNS: Final = "whole runs are compared by wall time"
MORE: Final = "give a larger --budget (or a finer --precision, where that ended it)"
NO_EFFECT: Final = f"nothing that it changes happened in the {{steps}} steps counted with it; if the script does it less often, {MORE}"
SELDOM: Final = f"what it changes happened in only {{blocks}} of its {{rounds}} blocks, too few to refute it: {MORE}"
LONG_STEPS: Final = "not refuted, because steps of up to {most} more than usual came too seldom to tell whether it shortens them, too"
KEPT_FIRST: Final = (
    "as measured it gains {gain}, but the first batch of each validation is still read ({each}), and without it the gain may be "
    "larger: use stub=MODULE:FUNCTION on the function that validates"
)
UNCORRECTED: Final = "other processes used {share} of the machine, and how long the training waited for a core is not known"


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """One arm: how it went, what was estimated and judged of it, how often its lever changed something, and what else that measured.

    Of a lever that was given up late the estimate is what it gained until then, and there is no judgement: nobody can train with it.
    `held_back` is why its gain is not to be called refuted, None where it may be; `withheld` says it in words. `spoils`: a loss was not
    finite while it was on. `repeated` are the whole runs that were compared in its place, where it could not be switched.
    """

    choice: Choice
    state: ArmState
    reason: str | None = None
    estimate: Estimate | None = None
    judgement: Judgement | None = None
    why: str | None = None
    effect: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    held_back: HeldBack | None = None
    withheld: str | None = None
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
    def trustworthy(self) -> bool | None:
        """Whether the gains are those of the levers; None where nothing speaks for it or against it."""
        # From the change on that was left, "as it is" is another training, and how much of another nobody knows.
        return False if self.not_undone or self.runs_differ else self.control_holds

    @property
    def reached(self) -> float | None:
        """Half the width of the widest interval of a lever, as a share; None where none was measured."""
        measured = [r for r in self.results if r.state == "measured"]
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
    steps, noted, seldom = unspoilt(steps, notes), by_arm(notes), seldom_changed(notes)
    choices = experiment.choices
    estimates = estimate(
        steps,
        plan,
        floors=floors(noted, experiment.floor_ns, steps),
        corrected=corrected_arms(choices, levers, foreign_share),
        own_long=arms_with_own_long_steps(choices, levers),
    )
    # A lever that met nothing to change was not tried, whatever there was to be seen meanwhile.
    tried = {arm: found for arm, found in estimates.items() if seldom.get(arm) != 0}
    repeated = {arm: found for arm, choice in enumerate(choices, FIRST) if (found := experiment.repeated.levers.get(choice.name))}
    measured = _figures({arm: found for arm, found in tried.items() if arm not in given_up(notes)}, repeated, noted, steps)
    judgements = judge_all(measured, _predicted(choices, predicted_lows), dict.fromkeys(repeated, FEWEST_PAIRS))
    late = {arm: NO_EFFECT.format(steps=found.steps) for arm, found in estimates.items() if arm not in tried}
    loaded = needing_cores(choices, levers, steps, foreign_share, stolen_share or 0.0)

    def result(arm: int, choice: Choice) -> Result:
        changes, said = changes_of(choice, levers), noted.get(arm, ())
        found = _result(choice, changes, tried.get(arm), judgements.get(arm), said, foreign_share, late.get(arm, ENDED))
        found = _repeated(found, repeated[arm]) if arm in repeated else found
        return _held_back(found, seldom.get(arm), loaded.get(arm), levers, measured.get(arm))

    return ExperimentResults(
        control=estimates.get(CONTROL),
        results=tuple(result(arm, choice) for arm, choice in enumerate(choices, FIRST)),
        not_undone=tuple(note for note in notes if note.get("state") == NOT_UNDONE),
        runs_differ=experiment.repeated.is_doubtful,
    )


def _figures(
    tried: Mapping[int, Estimate], repeated: Mapping[int, RepeatedRuns], noted: Mapping[int, Sequence[ArmNote]], steps: ExperimentSteps
) -> dict[int, ArmFigures]:
    """The gains that are judged, by arm: of blocks, with what a lever leaves there, or of whole runs."""
    by_blocks = {
        arm: with_kept(found, found.log_ratio, kept_share(last_facts(noted.get(arm, ())), steps, arm)) for arm, found in tried.items()
    }
    return by_blocks | {arm: found for arm, found in repeated.items() if found.rounds >= 2 and found.state == "measured"}


def _predicted(choices: Sequence[Choice], lows: Mapping[str, float]) -> dict[int, float]:
    """The low ends of the predicted gains, by arm, of the levers that are the fix or its bound."""
    rules = {arm: choice.rule for arm, choice in enumerate(choices, FIRST) if choice.role != "other"}
    return {arm: lows[rule] for arm, rule in rules.items() if rule is not None and rule in lows}


def _faults(experiment: Experiment) -> list[ArmNote]:
    """The levers that the script could not go on with, as if they had noted it themselves."""
    reasons = {fault.choice.name: fault.reason for fault in experiment.faults}
    return [
        {"arm": arm, "name": choice.name, "state": "failed", "reason": reasons[choice.name]}
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


def _result(
    choice: Choice,
    changes: tuple[str, ...],
    found: Estimate | None,
    judgement: Judgement | None,
    notes: Sequence[ArmNote],
    foreign_share: float | None,
    late: str,
) -> Result:
    """The result by blocks; `late` is why there is none where the lever itself says nothing against it."""
    gone = next((note for note in notes if note.get("state") in GIVEN_UP), None)
    state: ArmState = gone["state"] if gone is not None else "measured" if found is not None else "unmeasured"
    reason = str(gone.get("reason")) if gone is not None else None if found is not None else late
    return Result(
        choice=choice,
        state=state,
        reason=reason,
        estimate=found,
        judgement=judgement,
        why=None if found is None else _why(found, changes, foreign_share),
        effect=last_effect(notes),
        facts=last_facts(notes),
        changes=changes,
        spoils=gone is not None and gone.get("not_finite") is not None,
    )


def _held_back(result: Result, blocks: int | None, loaded: str | None, levers: Mapping[str, Lever], measured: ArmFigures | None) -> Result:
    """The same, with why it is not refuted: `blocks` in which its lever changed something, where they are too few; what others took of
    the cores that it asks for; long steps that it may shorten; what it leaves, without which a gain would be seen.
    """
    if loaded is not None:
        return replace(result, held_back="load", withheld=loaded)
    if blocks is not None and result.estimate is not None:
        return replace(result, held_back="seldom", withheld=SELDOM.format(blocks=blocks, rounds=result.estimate.rounds))
    if (long_steps := _perhaps_shortened(result, levers)) is not None:
        # Steps that a lever takes away are seen to be gone once there are more of them; how much shorter they got is not.
        is_own = long_steps_of(result.choice, levers) == "its own"
        withheld = LONG_STEPS.format(most=format_duration(long_steps.most_ns))
        return (
            replace(result, held_back="seldom", withheld=f"{withheld}: {MORE}")
            if is_own
            else replace(result, held_back="long steps", withheld=withheld)
        )
    if isinstance(measured, WithKept) and measured.hides(WORTH) and KEPT_EACH in result.facts:
        gain, each = measured.log_ratio.least.factor, format_duration(result.facts[KEPT_EACH])
        return replace(result, held_back="kept", withheld=KEPT_FIRST.format(gain=format_ratio(gain), each=each))
    return result


def _known_gain(result: Result) -> Interval | None:
    """The gain of an arm as it is known: with what its lever leaves there it is less well known than it was measured."""
    if result.judgement is not None and result.facts.get(KEPT):
        return result.judgement.interval
    return None if result.estimate is None else result.estimate.gain


def _perhaps_shortened(result: Result, levers: Mapping[str, Lever]) -> LongSteps | None:
    """Long steps that were counted alike, where the lever may shorten them, and would then perhaps gain."""
    if result.estimate is None or result.judgement is None or long_steps_of(result.choice, levers) == "kept":
        return None
    found = result.estimate.long_steps
    return found if found is not None and found.gain_without(result.judgement.interval.high) >= WORTH else None


def _repeated(result: Result, found: RepeatedRuns) -> Result:
    """The result of a lever that could not be switched, by whole runs with it. Why it could not is told in any case."""
    state: ArmState = found.state
    if found.state == "unmeasured":
        state = result.state
    said = {
        "measured": f"it could not be switched ({result.reason})",
        "unmeasured": f"{result.reason}; and whole runs were not compared: {found.reason}",
    }
    return replace(
        result,
        state=state,
        reason=said.get(found.state, f"{result.reason}; and in a run of its own: {found.reason}"),
        why=RERUNS if found.rounds >= 2 else None,
        effect=found.effect if found.rounds else result.effect,
        facts=found.facts,
        # Blocks that it was in until it refused say less than the runs.
        estimate=None if found.rounds >= 2 else result.estimate,
        repeated=found if found.rounds >= 2 else None,
    )


def _why(found: Estimate, changes: tuple[str, ...], foreign_share: float | None) -> str:
    """Why the gain is that of the wall clock, or the corrected one."""
    if foreign_share is None:
        return UNKNOWN_LOAD
    if not is_busy(foreign_share):
        return ONLY_WALL
    if DEMAND in changes:
        return OWN_DEMAND
    return (CORRECTED if found.uses_corrected else UNCORRECTED).format(share=format_share(foreign_share))
