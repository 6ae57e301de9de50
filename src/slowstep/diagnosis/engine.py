"""Runs every rule, lets findings of one cause fold into one, and draws the verdict."""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.unnamed import how_to_name, name_by_hand
from slowstep.diagnosis.few_steps import is_provisional, provisional, why_provisional
from slowstep.diagnosis.healthy import Doubt, more_blocked, not_healthy
from slowstep.diagnosis.law import (
    STAGE_LEFT,
    WAITS_FOR_RANK,
    Answers,
    Diagnosis,
    NextLimit,
    ask,
    is_bottleneck,
    larger_unknown,
    open_by_fault,
    rules,
    sort_answers,
    undetermined,
    what_is_left,
)
from slowstep.diagnosis.rule import Judged
from slowstep.faults import Attempts, Fault
from slowstep.findings import Finding, Verdict
from slowstep.reasons import Wording
from slowstep.stages import STAGES, UNATTRIBUTED

MAKING_BATCHES = Wording("making-batches", "making batches, {ns:ms} ms per step")
TIMES_THE_SAMPLES = Wording("times-the-samples", " of {ratio:.3g} times the samples")
NO_PROBLEM = Wording(
    "no-problem", "no problem was found that costs 10 % or more: {share:share} of the time is {stage}, the training's own work"
)
DEVICE_NOT_RECORDED = Wording(
    "device-not-recorded",
    "the model trains on {device}, whose work is not recorded: only the training thread is; the waits for input are right; "
    "trace the rest with torch.profiler",
)
WARMUP_TOO_LONG = Wording(
    "warmup-too-long", "a warm-up of {warmup:,} steps, as was asked for, leaves only {left:,} of {total:count step}: leave out fewer"
)


def diagnose(m: Measurements) -> Diagnosis:
    """Judge the measurements by every rule and draw the verdict."""
    attempt = Attempts()
    answers = sort_answers(ask(attempt, ((rule, rule.judge) for rule in rules().values()), m))
    if attempt.otherwise(False, is_provisional, m):
        answers = provisional(answers)
    concluded = attempt.outcome("the verdict", _conclude, m, answers)
    if isinstance(concluded, Fault):
        verdict = open_by_fault(attempt.otherwise("", _largest_stage, m) or None, concluded)
        concluded = _Conclusion(answers, verdict, Doubt(concluded.reason, by_fault=True))
    leading, doubt = concluded.answers.leading, concluded.doubt
    following = attempt.otherwise(None, _next, m, leading[0]) if leading else None
    return Diagnosis(
        findings=concluded.answers.findings,
        not_judged=tuple(answers.unjudged),
        verdict=concluded.verdict,
        next=following,
        telling=doubt.levers if doubt is not None else None,
        change=doubt.change if doubt is not None else None,
        faults=tuple(attempt.faults),
        by_fault=doubt is not None and doubt.by_fault,
    )


@dataclass(frozen=True, slots=True)
class _Conclusion:
    """The verdict, the doubt that leaves it open if one does, and the answers in the order that it gives them."""

    answers: Answers
    verdict: Verdict
    doubt: Doubt | None


def _conclude(m: Measurements, answers: Answers) -> _Conclusion:
    first = next((judged.finding for judged in answers.leading if is_bottleneck(judged.finding)), None)
    doubt = _doubt(m, first) or (None if first is not None else not_healthy(m, answers))
    answers = answers if doubt is None else answers.led_by(doubt.rule)
    verdict = _verdict(m, first, doubt)
    if verdict.state == "healthy" and m.faults:
        return _Conclusion(answers, open_by_fault(verdict.stage, m.faults[0]), Doubt(m.faults[0].reason, by_fault=True))
    return _Conclusion(answers, verdict, doubt)


def _verdict(m: Measurements, first: Finding | None, doubt: Doubt | None) -> Verdict:
    largest = _largest_stage(m)
    if doubt is not None:
        return undetermined(largest, doubt.reason)
    if first is not None:
        return Verdict(state="bottleneck", stage=first.stage, healthy=False, rule=first.rule, reason=None)
    reason = NO_PROBLEM(share=m.ledger.share(largest), stage=largest)
    return Verdict(state="healthy", stage=largest, healthy=True, rule=None, reason=reason)


def _doubt(m: Measurements, first: Finding | None) -> Doubt | None:
    """Why nothing can be said for certain; `first` is the finding that would be the bottleneck."""
    if m.compute.device != "cpu":
        return Doubt(DEVICE_NOT_RECORDED(device=m.compute.device))
    if m.sharing.slower is not None:
        rank, own_ns = m.sharing.slower
        return Doubt(WAITS_FOR_RANK(rank=rank, theirs_ns=own_ns, own_ns=float(m.sharing.own_ns.mean())))
    if m.steps.asked_too_many:
        return Doubt(WARMUP_TOO_LONG(warmup=m.steps.asked_warmup, left=m.steps.count, total=m.steps.total))
    if is_provisional(m):
        return Doubt(why_provisional(m))
    if first is None:
        return None
    larger = larger_unknown(m.ledger.share(UNATTRIBUTED), first, m.ledger.share(first.stage), lambda: how_to_name(m))
    return more_blocked(m, first) if larger is None else Doubt(larger, change=name_by_hand(m))


def _largest_stage(m: Measurements) -> str:
    return max(STAGES, key=m.ledger.share)


def _next(m: Measurements, first: Judged) -> NextLimit | None:
    """The stage whose demand is B; the training thread's largest remaining stage where that is larger. None for an unknown gain."""
    after = None if first.counterfactual is None else first.counterfactual.after(m)
    if after is None:
        return None
    if after.beside_stage is not None:
        return NextLimit(stage=after.beside_stage, predicted=MAKING_BATCHES(ns=after.beside_ns))
    stages = (*STAGES, UNATTRIBUTED)
    held = {stage: m.ledger.total(stage) / m.steps.count for stage in stages}
    claims = first.finding.claims
    claimed = {s: m.ledger.total_of(*(part for part in claims if part.stage == s)) / m.steps.count for s in stages}
    left = what_is_left(held, claimed, after.own_ns)
    stage = max(STAGES, key=lambda s: left[s])
    samples = None if after.samples_ratio == 1.0 else TIMES_THE_SAMPLES(ratio=after.samples_ratio)
    return NextLimit(stage=stage, predicted=STAGE_LEFT(stage=stage, left_ns=left[stage], rest_ns=after.own_ns, samples=samples))
