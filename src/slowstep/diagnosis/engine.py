"""Runs every rule, lets findings of one cause fold into one, and draws the verdict, whatever was measured.

What depends on that is in the `Viewpoint` of such measurements; everything else is here and in `law.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.captured import with_captured
from slowstep.diagnosis.law import (
    HIDDEN_BY_FAULT,
    MODEL,
    OF_STEP,
    STAGE_DEMAND,
    STAGE_LEFT,
    Answers,
    Diagnosis,
    NextLimit,
    ask,
    is_bottleneck,
    larger_unknown,
    rules,
    sort_answers,
    undetermined,
    what_is_left,
)
from slowstep.diagnosis.recording_view import RECORDING
from slowstep.diagnosis.rule import Judged
from slowstep.diagnosis.trace_view import TRACE
from slowstep.diagnosis.viewpoint import Doubt, Viewpoint
from slowstep.faults import Attempts, Fault
from slowstep.findings import Finding, Verdict
from slowstep.parts import Part, PartKind
from slowstep.reasons import Reason, Wording
from slowstep.stages import STAGES, UNATTRIBUTED

VIEWPOINTS: Final = (RECORDING, TRACE)

MAKING_BATCHES = Wording("making-batches", "making batches, {ns:ms} ms per step")
# How times of a step are written: of two that read the same, one is enough.
_IN_MS = "{:.1f}"
TIMES_THE_SAMPLES = Wording("times-the-samples", " of {ratio:.3g} times the samples")


def diagnose(m: Measurements) -> Diagnosis:
    """Judge the measurements by every rule and draw the verdict."""
    own = _diagnose(m)
    return _with_captured(m, own) if m.has("captured") else own


def _with_captured(m: Measurements, own: Diagnosis) -> Diagnosis:
    """With what the steps show that a profiler captured."""
    attempt = Attempts()
    window = attempt.otherwise(None, lambda: m.captured.m)
    if window is None:
        return own
    judged = _diagnose(window)
    faults = (*own.faults, *judged.faults)
    # Nothing is healthy while a fault may hide what slows it.
    may_lead = m.captured.device is not None and not (judged.verdict.healthy and (m.faults or faults))
    return replace(with_captured(own, judged, steps=m.captured.steps, may_lead=may_lead), faults=faults)


def _diagnose(m: Measurements) -> Diagnosis:
    attempt, view = Attempts(), next(view for view in VIEWPOINTS if m.has(*view.topics))
    asked = sort_answers(ask(attempt, rules().values(), m))
    answers = attempt.otherwise(asked, view.claimed, m, asked)
    concluded = attempt.outcome("the verdict", _conclude, m, view, answers)
    if isinstance(concluded, Fault):
        concluded = _open(answers, attempt.otherwise(None, _largest_stage, m), _hidden_by(concluded))
    leading, doubt = concluded.answers.leading, concluded.doubt
    unclaimed = [one for said in view.unclaimed for one in attempt.otherwise((), said, m, answers)]
    return Diagnosis(
        findings=concluded.answers.findings,
        not_judged=(*answers.unjudged, *unclaimed),
        verdict=concluded.verdict,
        next=attempt.otherwise(None, _next, m, leading[0]) if leading else None,
        deciding_levers=None if doubt is None else doubt.levers,
        change=None if doubt is None else doubt.change,
        faults=tuple(attempt.faults),
        by_fault=doubt is not None and doubt.by_fault,
    )


@dataclass(frozen=True, slots=True)
class _Conclusion:
    """The verdict, the doubt that leaves it open if one does, and the answers in the order that it gives them."""

    answers: Answers
    verdict: Verdict
    doubt: Doubt | None = None


def _conclude(m: Measurements, view: Viewpoint, answers: Answers) -> _Conclusion:
    largest = _largest_stage(m)
    whole = view.open_at_all(m, answers)
    if whole is not None:
        return _open(answers, largest, whole)
    first = next((judged.finding for judged in answers.leading if is_bottleneck(judged.finding)), None)
    doubt = _why_not_healthy(m, view, answers) if first is None else _no_bottleneck(m, view, answers, first)
    scope = view.scope(m)
    if doubt is not None:
        return _open(answers, largest, doubt, scope)
    if first is not None:
        verdict = Verdict(state="bottleneck", stage=first.stage, healthy=False, rule=first.rule, reason=None, scope=scope)
        return _Conclusion(answers, verdict)
    reason = view.healthy(m, largest or MODEL)
    return _Conclusion(answers, Verdict(state="healthy", stage=largest, healthy=True, rule=None, reason=reason))


def _open(answers: Answers, largest: str | None, doubt: Doubt, scope: Reason | None = None) -> _Conclusion:
    return _Conclusion(answers.led_by(doubt.rule), undetermined(largest, doubt.reason, scope), doubt)


def _no_bottleneck(m: Measurements, view: Viewpoint, answers: Answers, first: Finding) -> Doubt | None:
    """Why the first finding that surely gains enough is not what slows the training; None where it is."""
    larger = larger_unknown(m.ledger.share(UNATTRIBUTED), first, m.ledger.share(first.stage), lambda: view.explain_more(m)[0])
    return view.not_the_cause(m, answers, first) if larger is None else Doubt(larger, change=view.explain_more(m)[1])


def _why_not_healthy(m: Measurements, view: Viewpoint, answers: Answers) -> Doubt | None:
    """Why a training without a bottleneck cannot be called healthy, of which an error of slowstep's own may be hiding one."""
    doubt = view.not_healthy(m, answers)
    return _hidden_by(m.faults[0]) if doubt is None and m.faults else doubt


def _hidden_by(fault: Fault) -> Doubt:
    return Doubt(HIDDEN_BY_FAULT(fault=fault.reason), by_fault=True)


def _largest_stage(m: Measurements) -> str | None:
    """The stage with most time; None where no stage has any."""
    stage = max(STAGES, key=m.ledger.share)
    return stage if m.ledger.share(stage) else None


def _next(m: Measurements, first: Judged) -> NextLimit | None:
    """What binds once the first finding is fixed: what then runs beside the step, where that takes longer, else the largest stage left.

    None where it is not known what the fix leaves of a step, and where more of it has no known cause than any stage then holds.
    """
    after = None if first.counterfactual is None else first.counterfactual.after(m)
    if after is None:
        return None
    if after.concurrent_stage is not None:
        return NextLimit(stage=after.concurrent_stage, predicted=MAKING_BATCHES(ns=after.concurrent_ns))
    held = {stage: m.ledger.share(stage) * m.mean_step_ns for stage in (*STAGES, UNATTRIBUTED)}
    left = what_is_left(held, _taken(m, first.finding), after.own_ns)
    stage = max(STAGES, key=lambda s: left[s])
    if left[UNATTRIBUTED] > left[stage]:
        return None
    samples = None if after.samples_ratio == 1.0 else TIMES_THE_SAMPLES(ratio=after.samples_ratio)
    is_all = _IN_MS.format(left[stage] / 1e6) == _IN_MS.format(after.own_ns / 1e6)
    of = None if is_all else OF_STEP(rest_ns=after.own_ns)
    return NextLimit(stage=stage, predicted=STAGE_LEFT(stage=stage, demand=STAGE_DEMAND(left_ns=left[stage], of=of, samples=samples)))


def _taken(m: Measurements, finding: Finding) -> list[dict[str, float]]:
    """What a fix shortens, by stage, ns of the mean step: first what the finding claims, then what those stages wait for a core, for who
    does less work waits less.
    """
    claims = {part.whole for part in finding.claims}
    stages = sorted({part.stage for part in claims})
    waits = {Part(stage, PartKind.CORE_WAIT) for stage in stages} - claims
    return [
        {stage: m.ledger.share_of(*(part for part in parts if part.stage == stage)) * m.mean_step_ns for stage in stages}
        for parts in (claims, waits)
    ]
