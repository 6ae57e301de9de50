"""The law on findings and verdicts, whatever was measured: what may be claimed, what folds, what is a bottleneck."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.bounds import judged_within_bounds
from slowstep.diagnosis.gain import StepAfter
from slowstep.diagnosis.made_levers import with_made_levers
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.faults import Attempts, Fault
from slowstep.findings import Finding, Folded, NotJudged, Verdict
from slowstep.parts import BACKWARD
from slowstep.reasons import Reason, Value, Wording
from slowstep.registry import discover

BOTTLENECK_PREDICTED = 1.10
BOTTLENECK_LOW = 1.03
HEALTHY_UNATTRIBUTED = 0.10
# What could gain 10 % by its share is not called healthy because nobody knows whether it would.
HEALTHY_SHARE_OF_UNKNOWN_GAIN = 0.10
UNJUDGED_STAGE = 0.10
# A limit that is no further from the gain is no news.
LIMIT_FROM = 1.05
# The stage that is the model's own work.
MODEL = "compute"

# What is said of recordings and of traces.
HIDDEN_BY_FAULT = Wording("hidden-by-fault", "an {fault} may hide what slows the training")
UNKNOWN_IS_LARGER = Wording(
    "unknown-is-larger",
    "{unattributed:share} of the time could not be attributed to any stage, no less than {stage:stage} takes ({share:share}); {remedy}",
)
UNATTRIBUTED_TIME = Wording("unattributed-time", "{share:share} of the time could not be attributed to any stage; {remedy}")
GAIN_NOT_KNOWN = Wording("gain-not-known", "what fixing {rule} would gain is not known ({whole}{share:share} of the time{bound}); {remedy}")
IF_NOTHING = Wording("if-nothing", ": {headroom:ratio} if that cost nothing")
WHOLE_STAGE = Wording("whole-stage", "it is on for all of {stage:stage}, ")
FIRST_GAIN_MAY_BE_NONE = Wording("first-gain-may-be-none", "the first finding's gain ({gain:ratio}) may be nothing; {remedy}")
STAGE_LEFT = Wording("stage-left", "{stage:stage}, {demand}")
STAGE_DEMAND = Wording("stage-demand", "{left_ns:ms}{of} ms per step{samples}")
OF_STEP = Wording("of-step", " of {rest_ns:ms}")
ALL_TOGETHER = Wording("all-together", "no single finding would gain 10 %, but all together predict {gain:ratio}; see the findings")
ALL_REMOVE_STEP = Wording(
    "all-remove-step", "no single finding would gain 10 %, but all together would remove the whole step; see the findings"
)
RULE_NOT_JUDGED = Wording("rule-not-judged", "{rule} could not be judged: {reason}")
WAITS_FOR_RANK = Wording(
    "waits-for-rank",
    "this rank waits for rank {rank}, whose own work takes {theirs_ns:ms} ms per step against {own_ns:ms} here: "
    "look at the report of that one{missing}",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class NextLimit:
    """What binds once the first finding is fixed: a stage, and what its demand is."""

    stage: str
    predicted: Reason


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """What the rules made of the measurements."""

    findings: tuple[Finding, ...]
    not_judged: tuple[NotJudged, ...]
    verdict: Verdict
    next: NextLimit | None
    deciding_levers: str | None = None  # those that would decide what leaves the verdict undetermined
    change: str | None = None  # what has to be done by hand before another run of the same command can tell it
    faults: tuple[Fault, ...] = ()  # errors of slowstep's own in judging
    by_fault: bool = False  # whether an error of slowstep's own is why the verdict is open


@dataclass(frozen=True, kw_only=True, slots=True)
class Answers:
    """What all rules answered: findings that lead, most gain first, those too uncertain to be claimed, those of whose fix nothing would
    come, advice, and what went unjudged.
    """

    leading: list[Judged] = field(default_factory=list)
    uncertain: list[Judged] = field(default_factory=list)
    gainless: list[Judged] = field(default_factory=list)
    advice: list[Finding] = field(default_factory=list)
    unjudged: list[NotJudged] = field(default_factory=list)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Those of the report, in its order: advice last, but for what ends the training before any gain would matter."""
        urgent = [finding for finding in self.advice if finding.urgent]
        later = [finding for finding in self.advice if not finding.urgent]
        return (*urgent, *(judged.finding for judged in self.leading), *later)

    def led_by(self, rule: str | None) -> Answers:
        """The same, with the finding first that the verdict rests on, if it is one of these."""
        return replace(self, leading=sorted(self.leading, key=lambda judged: judged.finding.rule != rule))


def rules() -> dict[str, Rule]:
    """All rules, by name."""
    return discover("slowstep.diagnosis.rules", "RULE", Rule, in_folders=True)


def ask(attempt: Attempts, asked: Iterable[Rule], m: Measurements) -> Iterator[tuple[Rule, Answer]]:
    """What every rule answers whose topics were measured. One that fails, or needs what failed, has not judged."""
    for rule in asked:
        if rule.is_asked(m):
            answer = attempt.outcome(f"the rule {rule.name}", _answer, rule, m)
            yield rule, NotJudged(rule=rule.name, reason=answer.reason, by_fault=True) if isinstance(answer, Fault) else answer


def _answer(rule: Rule, m: Measurements) -> Answer:
    return with_made_levers(m, judged_within_bounds(rule.judge, m))


def open_by_fault(stage: str | None, fault: Fault) -> Verdict:
    """The verdict where it is not known whether there is more to be found than was."""
    return undetermined(stage, HIDDEN_BY_FAULT(fault=fault.reason))


def opened_by(diagnosis: Diagnosis, fault: Fault) -> Diagnosis:
    """The diagnosis where something could not be done that might have changed a healthy verdict."""
    verdict = diagnosis.verdict
    return replace(diagnosis, verdict=open_by_fault(verdict.stage, fault)) if verdict.state == "healthy" else diagnosis


def undetermined(stage: str | None, reason: Reason, scope: Reason | None = None) -> Verdict:
    """An open verdict, and why."""
    return Verdict(state="undetermined", stage=stage, healthy=None, rule=None, reason=reason, scope=scope)


def sort_answers(answers: Iterable[tuple[Rule, Answer]]) -> Answers:
    """Fold what claims the same, leave out what would lose, and put the rest in order."""
    sorted_out, claimed = Answers(), list[Judged]()
    for rule, answer in answers:
        if isinstance(answer, NotJudged):
            sorted_out.unjudged.append(replace(answer, advisory=rule.advisory or answer.advisory))
        elif answer is not None and answer.finding.advisory:
            sorted_out.advice.append(answer.finding)
        elif answer is not None and not loses(answer.finding):
            (claimed if answer.finding.share_low >= CLAIM else sorted_out.uncertain).append(answer)
    sorted_out.leading.extend(map(_with_limit, bottlenecks_first(fold(claimed))))
    return sorted_out


def _with_limit(judged: Judged) -> Judged:
    """The finding with what it would gain if all that it claims cost nothing, where that is more than its first fix is predicted to.

    The model's own work costs something, whoever does it how: of that only what names its cause has such a limit, and not where that is all
    of backward.
    """
    finding = judged.finding
    is_models = finding.stage == MODEL and (not finding.names_cause or BACKWARD in finding.claims)
    if finding.gain.predicted is None or finding.share >= 1 or is_models:
        return judged
    limit = 1 / (1 - finding.share)
    if limit < LIMIT_FROM * finding.gain.predicted:
        return judged
    return replace(judged, finding=replace(finding, gain=replace(finding.gain, headroom=limit)))


def fold(judged: Iterable[Judged]) -> list[Judged]:
    """Of findings that claim the same part, the one that names the cause leads; the others are folded into it."""
    leading: list[Judged] = []
    ranked = sorted(judged, key=lambda j: (not j.finding.names_cause, -(j.finding.gain.predicted or 0.0)))
    for candidate in ranked:
        over = next((i for i, j in enumerate(leading) if set(j.finding.claims) & set(candidate.finding.claims)), None)
        if over is None:
            leading.append(candidate)
        else:
            leading[over] = replace(leading[over], finding=_with_folded(leading[over].finding, candidate.finding))
    return leading


def _with_folded(finding: Finding, other: Finding) -> Finding:
    """A finding that says what else claims its parts, and what that advises: it may be cheaper to try."""
    folded = Folded(rule=other.rule, title=other.title, fixes=other.fixes, gain=other.gain, names=other.names)
    return replace(finding, also=(*finding.also, other.rule), folded=(*finding.folded, folded))


def what_is_left(held: Mapping[str, float], taken: Iterable[Mapping[str, float]], rest: float) -> dict[str, float]:
    """What each stage still holds of a step that a fix makes `rest` long, of all that it `held`.

    `taken` is what the fix takes that away from, each only where those before it are not enough: what the finding claims, then what comes
    with that. All in one unit; `held` has unattributed time too, so that it sums to the step. A fix may remove more: a host that runs
    ahead again is no part of anything, and shortens all that is left. So no stage holds more than the step.
    """
    left, removed = dict(held), sum(held.values()) - rest
    for each in taken:
        whole = sum(each.values())
        share = min(removed / whole, 1.0) if whole > 0 else 0.0
        left = {stage: max(amount - share * each.get(stage, 0.0), 0.0) for stage, amount in left.items()}
        removed -= share * whole
    whole = sum(left.values())
    fits = min(rest / whole, 1.0) if whole > 0 else 0.0
    return {stage: fits * amount for stage, amount in left.items()}


def bottlenecks_first(leading: list[Judged]) -> list[Judged]:
    """Bottlenecks, then what may gain nothing or hardly anything, each by gain: the first finding is what the verdict names."""
    return sorted(leading, key=lambda j: (not is_bottleneck(j.finding), -(j.finding.gain.predicted or 0.0)))


def loses(finding: Finding) -> bool:
    """Whether the fix would make the training slower, to two digits: then there is nothing to advise."""
    predicted = finding.gain.predicted
    return predicted is not None and round(predicted, 2) < 1.0


def is_bottleneck(finding: Finding) -> bool:
    """Whether fixing it surely gains, and gains enough: that another run may meet a slower machine is no doubt of the fix."""
    gain = finding.gain
    low = gain.low if gain.steady_low is None else gain.steady_low
    return (gain.predicted or 0.0) >= BOTTLENECK_PREDICTED and (low or 0.0) > BOTTLENECK_LOW


def may_be_bottleneck(finding: Finding) -> bool:
    """Whether a finding that may be nothing, by its share, may also be what slows the training."""
    if finding.gain.predicted is None:
        return finding.share >= HEALTHY_SHARE_OF_UNKNOWN_GAIN
    return finding.gain.predicted >= BOTTLENECK_PREDICTED


def larger_unknown(unattributed: float, first: Finding, stage: float, remedy: Callable[[], Value]) -> Reason | None:
    """Why the first finding, whose stage holds the share `stage`, is no bottleneck: what nothing explains is more. Else None.

    `remedy` says what would tell more.
    """
    found = max(first.share, stage)
    if unattributed < HEALTHY_UNATTRIBUTED or unattributed <= found:
        return None
    return UNKNOWN_IS_LARGER(unattributed=unattributed, stage=first.stage, share=found, remedy=remedy())


def of_unknown_gain(answers: Answers) -> Finding | None:
    """The first finding that could gain enough by its share, of which nobody knows whether it would."""
    findings = (judged.finding for judged in answers.leading)
    return next((f for f in findings if f.gain.predicted is None and f.share >= HEALTHY_SHARE_OF_UNKNOWN_GAIN), None)


def gain_not_known(finding: Finding, remedy: str, whole: Reason | None = None) -> Reason:
    """That it is not known what fixing the finding would gain, with the most where that is; `remedy` says what would tell."""
    headroom = finding.gain.headroom
    bound = None if headroom is None else IF_NOTHING(headroom=headroom)
    return GAIN_NOT_KNOWN(rule=finding.rule, whole=whole, share=finding.share, bound=bound, remedy=remedy)


def large_together(m: Measurements, answers: Answers, remedy: str) -> Reason | None:
    """Why findings of which none is a bottleneck are no sign of health: the first may gain enough, or all do together. Else None.

    `remedy` says what makes the first one's gain certain.
    """
    together = combined_gain(m, answers.leading)
    if together < BOTTLENECK_PREDICTED:
        return None
    gain = answers.leading[0].finding.gain.predicted
    if gain is not None and gain >= BOTTLENECK_PREDICTED:
        return FIRST_GAIN_MAY_BE_NONE(gain=gain, remedy=remedy)
    return ALL_REMOVE_STEP() if math.isinf(together) else ALL_TOGETHER(gain=together)


def combined_gain(m: Measurements, leading: Iterable[Judged]) -> float:
    """The gain of all findings together; their claims do not overlap, so what they remove adds up. Infinite where that is all of a step.

    Larger batches remove nothing from a step: what they gain stands by itself.
    """
    step_ns = m.mean_step_ns
    left = [after for j in leading if j.counterfactual is not None and (after := j.counterfactual.after(m)) is not None]
    plain = [after for after in left if after.samples_ratio == 1.0]
    resized = [after.factor(step_ns) for after in left if after.samples_ratio != 1.0]
    if not plain:
        return max(resized, default=1.0)
    own_ns = step_ns - sum(step_ns - after.own_ns for after in plain)
    everything = StepAfter(own_ns=own_ns, concurrent_ns=min(after.concurrent_ns for after in plain))
    return max([everything.factor(step_ns), *resized])
