"""Runs every rule that judges traces, and draws the verdict by the same law as of a recorded run."""

from __future__ import annotations

import math
from collections.abc import Iterator

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.trace_side import ALL_STEPS, for_framework
from slowstep.diagnosis.law import (
    ALL_TOGETHER,
    BOTTLENECK_PREDICTED,
    FIRST_GAIN_MAY_BE_NONE,
    GAIN_NOT_KNOWN,
    HEALTHY_SHARE_OF_UNKNOWN_GAIN,
    HEALTHY_UNATTRIBUTED,
    RULE_NOT_JUDGED,
    STAGE_LEFT,
    UNATTRIBUTED_TIME,
    UNJUDGED_STAGE,
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
from slowstep.diagnosis.trace_doubts import doubt
from slowstep.faults import Attempts, Fault
from slowstep.findings import Finding, NotJudged, Verdict
from slowstep.reasons import Reason, Wording
from slowstep.stages import STAGES, UNATTRIBUTED

# The stage that is the model's own work, and the one that depends on other ranks.
MODEL, SHARED = "compute", "gradient_sharing"
TRACE_MORE = "trace more steps"

# What `among_ranks` says otherwise, once other ranks are seen.
LATE_ONE_NOT_SEEN = Wording(
    "late-one-not-seen",
    "{share:share} of the time is {stage}, and whether this rank waits for a late one is not seen: analyze the folder of all ranks' traces",
)
FIXES_SAVE_TOO_LITTLE = Wording(
    "fixes-save-too-little", "{share:share} of the time is {stage}, and the fixes below would save too little of it"
)
NO_FIX_FOR_STAGE = Wording(
    "no-fix-for-stage", "{share:share} of the time is {stage}, and no fix for it is known; record the training: slowstep run"
)
MAY_CONCERN = Wording("may-concern", f"{{rule}} may concern {{low:share}} to {{high:share}} of the time; {TRACE_MORE}")
CHOSEN_STEP = Wording("chosen-step", "in the one step that you chose ({number}, of {of})")
NOTHING_IN_CHOSEN_STEP = Wording(
    "nothing-in-chosen-step",
    f"no problem was found in it that costs 10 % or more, which says nothing about the other steps: {ALL_STEPS}",
)
NO_PROBLEM_IN_TRACE = Wording(
    "no-problem-in-trace", "no problem was found that costs 10 % or more: {share:share} of the time is {stage}{busy}"
)
DEVICE_BUSY = Wording("device-busy", ", the device is busy {share:share} of it")
STEPS_DIFFER = Wording("steps-differ", f"{{title}}, but steps differ: it may be {{low:share}} to {{high:share}} of the time; {TRACE_MORE}")
BY_RECORDING = Wording(
    "by-recording",
    "{title}, but recording took some {low:share} to {high:share} of the host's time, and without it nothing would come of the fix; "
    "to see, trace again with record_shapes=False and with_stack=False",
)


def diagnose_trace(m: Measurements) -> Diagnosis:
    """Judge one rank's trace by every rule that judges traces."""
    attempt = Attempts()
    answers = sort_answers(ask(attempt, ((rule, rule.judge_trace) for rule in rules().values()), m))
    gainless = [judged.finding for judged in answers.leading if not _gains(judged.finding)]
    answers.leading[:] = [judged for judged in answers.leading if _gains(judged.finding)]
    verdict = attempt.outcome("the verdict", _verdict, m, answers)
    by_fault = isinstance(verdict, Fault) or (verdict.state == "healthy" and bool(m.faults))
    if isinstance(verdict, Fault) or by_fault:
        fault = verdict if isinstance(verdict, Fault) else m.faults[0]
        verdict = open_by_fault(attempt.otherwise(None, _largest, m), fault)
    return Diagnosis(
        findings=answers.findings,
        not_judged=(*answers.unjudged, *_uneven(answers), *attempt.otherwise((), _by_recording, m, gainless)),
        verdict=verdict,
        next=attempt.otherwise(None, _next, m, answers.leading[0].finding) if answers.leading else None,
        faults=tuple(attempt.faults),
        by_fault=by_fault,
    )


def _uneven(answers: Answers) -> Iterator[NotJudged]:
    """Findings of a large share that differs so much from step to step that it may be nothing: they are not claimed, but said."""
    for finding in (judged.finding for judged in answers.uncertain):
        if finding.share >= HEALTHY_SHARE_OF_UNKNOWN_GAIN and _gains(finding):
            reason = STEPS_DIFFER(title=finding.title, low=finding.share_low, high=finding.share_high)
            yield NotJudged(rule=finding.rule, reason=reason)


def _by_recording(m: Measurements, gainless: list[Finding]) -> tuple[NotJudged, ...]:
    """What would gain in the trace and nothing without a profiler, as far as its cost is known: it is not claimed, but said."""
    share = m.replay.profiler_share
    unclaimed = []
    for finding in gainless:
        if share is not None and _optimistic(finding) >= BOTTLENECK_PREDICTED:
            reason = BY_RECORDING(title=finding.title, low=share[0], high=share[1])
            unclaimed.append(NotJudged(rule=finding.rule, reason=reason))
    return tuple(unclaimed)


def _optimistic(finding: Finding) -> float:
    """The gain at most; infinite where a known one has no upper end."""
    gain = finding.gain
    return (0.0 if gain.predicted is None else math.inf) if gain.high is None else gain.high


def _gains(finding: Finding) -> bool:
    """Whether anything comes of its fix, to two digits, as far as that is known.

    A replay knows what stands behind a part: where nothing comes of taking it away, there is nothing to advise.
    """
    return round(finding.gain.predicted or math.inf, 2) > 1.0


def _may_gain(finding: Finding) -> bool:
    """Whether a finding that may be nothing may also be a bottleneck."""
    if finding.gain.predicted is None:
        return finding.share >= HEALTHY_SHARE_OF_UNKNOWN_GAIN
    return finding.gain.predicted >= BOTTLENECK_PREDICTED


def _verdict(m: Measurements, answers: Answers) -> Verdict:
    largest = _largest(m)
    why = doubt(m, found=bool(answers.findings))
    if why is not None:
        return undetermined(largest, why)
    step = _of_one_step(m)
    first = next((j.finding for j in answers.leading if is_bottleneck(j.finding)), None)
    larger = (
        None if first is None else larger_unknown(m.ledger.share(UNATTRIBUTED), first, m.ledger.share(first.stage), lambda: _shows_more(m))
    )
    if larger is not None:
        return undetermined(largest, larger, step)
    if first is not None:
        return Verdict(state="bottleneck", stage=first.stage, healthy=False, rule=first.rule, reason=None, scope=step)
    why = _not_healthy(m, answers)
    if why is not None:
        return undetermined(largest, why, step)
    if step is not None:
        return undetermined(largest, NOTHING_IN_CHOSEN_STEP(), step)
    busy = None if m.device.busy_share is None else DEVICE_BUSY(share=m.device.busy_share)
    reason = NO_PROBLEM_IN_TRACE(share=m.ledger.share(largest or MODEL), stage=largest or MODEL, busy=busy)
    return Verdict(state="healthy", stage=largest, healthy=True, rule=None, reason=reason)


def _largest(m: Measurements) -> str | None:
    """The stage with most time; None where no stage has any."""
    stage = max(STAGES, key=lambda stage: m.ledger.share(stage))
    return stage if m.ledger.share(stage) else None


def _of_one_step(m: Measurements) -> Reason | None:
    """Which step a verdict is of; None where all steps are looked at.

    A step that the user chose may have a bottleneck, by the same law, and the sentence says that it is that step's. It is never healthy:
    that is said of a training, and one step tells nothing of the others.
    """
    return CHOSEN_STEP(number=m.marks.table["number"][0], of=m.marks.whole_steps) if m.marks.is_chosen else None


def _not_healthy(m: Measurements, answers: Answers) -> Reason | None:
    """Why the training cannot be called healthy though no single finding is a bottleneck; None where it can."""
    unattributed = m.ledger.share(UNATTRIBUTED)
    if unattributed >= HEALTHY_UNATTRIBUTED:
        return UNATTRIBUTED_TIME(share=unattributed, remedy=_shows_more(m))
    findings = [j.finding for j in answers.leading]
    unknown = next((f for f in findings if f.gain.predicted is None and f.share >= HEALTHY_SHARE_OF_UNKNOWN_GAIN), None)
    if unknown is not None:
        return GAIN_NOT_KNOWN(rule=unknown.rule, share=unknown.share, remedy="try its first fix")
    together = combined_gain(answers.leading)
    if together >= BOTTLENECK_PREDICTED:
        if (findings[0].gain.predicted or 0.0) >= BOTTLENECK_PREDICTED:
            return FIRST_GAIN_MAY_BE_NONE(gain=findings[0].gain.predicted, remedy=TRACE_MORE)
        return ALL_TOGETHER(gain=together)
    for doubtful in (j.finding for j in answers.uncertain if _may_gain(j.finding)):
        return MAY_CONCERN(rule=doubtful.rule, low=doubtful.share_low, high=doubtful.share_high)
    for stage in STAGES:
        if stage != MODEL and m.ledger.share(stage) >= UNJUDGED_STAGE:
            return _beside_the_model(m, stage, any(f.stage == stage for f in findings))
    for skipped in answers.unjudged:
        rule = rules()[skipped.rule]
        if not skipped.advisory and max(m.ledger.share(stage) for stage in rule.stages) >= UNJUDGED_STAGE:
            return RULE_NOT_JUDGED(rule=skipped.rule, where=None, reason=skipped.reason)
    return None


def _shows_more(m: Measurements) -> str:
    """What to do so that a next trace attributes more of the time."""
    if m.device.seen:
        return for_framework(
            m,
            torch="trace the host too, with activities=[CPU, CUDA]",
            tensorflow="trace the host too, with ProfilerOptions(host_tracer_level=2)",
            jax="trace the host too, with host_tracer_level=2",
        )
    name = for_framework(
        m,
        torch='with record_function("save_images")',
        tensorflow='with tf.profiler.experimental.Trace("save_images")',
        jax='with jax.profiler.TraceAnnotation("save_images")',
    )
    return f"name them: {name}"


def _beside_the_model(m: Measurements, stage: str, found: bool) -> Reason:
    """A stage that is no work of the model's, has much time, and of which no finding would take enough away."""
    wording = LATE_ONE_NOT_SEEN if stage == SHARED else FIXES_SAVE_TOO_LITTLE if found else NO_FIX_FOR_STAGE
    return wording(share=m.ledger.share(stage), stage=stage)


def combined_gain(leading: list[Judged]) -> float:
    """The gain of all findings together. Their claims do not overlap, so the shares of the step that they remove add up."""
    removed = sum(1 - 1 / j.finding.gain.predicted for j in leading if j.finding.gain.predicted)
    return math.inf if removed >= 1 else 1 / (1 - removed)


def _next(m: Measurements, first: Finding) -> NextLimit | None:
    """The largest stage once the first finding's part has gone.

    None where that is not known: without a gain, without steps, and where more of the time has no known cause than the stage holds.
    """
    if not first.gain.predicted or m.marks.is_window:
        return None
    removed = 1 - 1 / first.gain.predicted
    stages = (*STAGES, UNATTRIBUTED)
    claimed: dict[str, float] = {
        stage: m.ledger.share_of(*(part.whole for part in first.claims if part.stage == stage)) for stage in STAGES
    }
    left = what_is_left({stage: m.ledger.share(stage) for stage in stages}, claimed, 1 - removed)
    stage = max(STAGES, key=lambda s: left[s])
    if left[UNATTRIBUTED] > left[stage]:
        return None
    step_ns = m.steps.length_ns / max(len(m.step_ns), 1)
    predicted = STAGE_LEFT(stage=stage, left_ns=left[stage] * step_ns, rest_ns=(1 - removed) * step_ns, samples=None)
    return NextLimit(stage=stage, predicted=predicted)
