"""Runs every rule that judges traces, and draws the verdict by the same law as of a recorded run."""

from __future__ import annotations

import math
from collections.abc import Iterator

from slowstep.analyses.trace.clocks import REMEDY as CLOCKS_REMEDY
from slowstep.analyses.trace.measured import TraceMeasurements
from slowstep.analyses.trace.parts import whole
from slowstep.analyses.trace.whole_steps import COPY_AGAIN, FEWER_STEPS
from slowstep.diagnosis.law import (
    BOTTLENECK_PREDICTED,
    HEALTHY_SHARE_OF_UNKNOWN_GAIN,
    HEALTHY_UNATTRIBUTED,
    UNJUDGED_STAGE,
    Answers,
    Diagnosis,
    Next,
    is_bottleneck,
    larger_unknown,
    rules,
    sort_answers,
)
from slowstep.diagnosis.rule import Judged
from slowstep.diagnosis.trace_side import for_framework
from slowstep.findings import Finding, NotJudged, Verdict
from slowstep.stages import STAGES, UNATTRIBUTED
from slowstep.units import format_count

# A run needs 30 steps for its verdict; profilers are told to keep three to ten. Of two, one confirms the other.
STEPS_AT_LEAST = 2
# The stage that is the model's own work, and the one that depends on other ranks.
MODEL, SHARED = "compute", "gradient_sharing"
# The framework whose backward passes are always to be seen, by their names.
TORCH = "pytorch"
# What a trace does not show must be less than what a verdict is about.
COVERED_AT_LEAST = 0.90
# What `among_ranks` puts the other ranks' part in the place of.
LATE_ONE_NOT_SEEN = "whether this rank waits for a late one is not seen: analyze the folder of all ranks' traces"


def diagnose_trace(m: TraceMeasurements) -> Diagnosis:
    """Judge one rank's trace by every rule that judges traces."""
    answers = sort_answers((rule, rule.judge_trace(m)) for rule in rules().values() if rule.judge_trace is not None)
    answers.leading[:] = [judged for judged in answers.leading if _gains(judged.finding)]
    return Diagnosis(
        findings=answers.findings,
        not_judged=(*answers.unjudged, *_uneven(answers)),
        verdict=_verdict(m, answers),
        next=_next(m, answers.leading[0].finding) if answers.leading else None,
    )


def _uneven(answers: Answers) -> Iterator[NotJudged]:
    """Findings of a large share that differs so much from step to step that it may be nothing: they are not claimed, but said."""
    for finding in (judged.finding for judged in answers.uncertain):
        if finding.share >= HEALTHY_SHARE_OF_UNKNOWN_GAIN and _gains(finding):
            spread = f"{finding.share_low:.0%} to {finding.share_high:.0%} of the time"
            yield NotJudged(rule=finding.rule, reason=f"{finding.title}, but steps differ: it may be {spread}; trace more steps")


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


def _verdict(m: TraceMeasurements, answers: Answers) -> Verdict:
    largest = max(STAGES, key=m.share)
    doubt = _doubt(m)
    if doubt is not None:
        return Verdict(state="undetermined", stage=largest, healthy=None, rule=None, summary=f"undetermined, because {doubt}")
    first = next((j.finding for j in answers.leading if is_bottleneck(j.finding)), None)
    larger = None if first is None else larger_unknown(m.share(UNATTRIBUTED), first, m.share(first.stage))
    if larger is not None:
        summary = f"undetermined, because {larger}; {_shows_more(m)}"
        return Verdict(state="undetermined", stage=largest, healthy=None, rule=None, summary=summary)
    if first is not None:
        return Verdict(state="bottleneck", stage=first.stage, healthy=False, rule=first.rule, summary=first.title)
    why = _not_healthy(m, answers)
    if why is not None:
        return Verdict(state="undetermined", stage=largest, healthy=None, rule=None, summary=f"undetermined, because {why}")
    busy = "" if m.device_busy_share is None else f", the device is busy {m.device_busy_share:.0%} of it"
    summary = f"no rule found anything worth 10 %: {m.share(largest):.0%} of the time is {largest}{busy}"
    return Verdict(state="healthy", stage=largest, healthy=True, rule=None, summary=summary)


def _doubt(m: TraceMeasurements) -> str | None:
    """Why nothing can be said of the training as a whole, whatever the findings are."""
    steps = m.table("steps")
    if not m.training:
        seen = "it is of an inference, or of a part of a training" if is_inference(m) else "whether it trains is not seen"
        return f"this trace shows no backward pass: {seen}; the findings below are about what ran"
    if steps.height and steps["mark"][0] == "window":
        mark = for_framework(
            m,
            torch="call prof.step() after each update",
            tensorflow="put tf.profiler.experimental.Trace('train', step_num=step, _r=1) around each step",
            jax="put jax.profiler.StepTraceAnnotation('train', step_num=step) around each step",
        )
        return f"the trace marks no steps and none could be made out: {mark}, and trace it again"
    if steps.height < STEPS_AT_LEAST:
        more = f"trace at least {STEPS_AT_LEAST + 1} (active=5 in torch.profiler.schedule)"
        # A first or last step that was traced in part is usual; where records are lost, more steps would lose more.
        is_lost = any(remedy in note for note in m.notes for remedy in (COPY_AGAIN, FEWER_STEPS))
        return f"the trace holds {format_count(steps.height, 'whole step')}: {'see what was left out, and why' if is_lost else more}"
    if m.coverage.clocks_differ is not None:
        return f"{m.coverage.clocks_differ}; {CLOCKS_REMEDY}"
    launched = m.coverage.kernels_with_launch
    if m.has_device and launched is not None and launched < COVERED_AT_LEAST and m.share(UNATTRIBUTED) >= HEALTHY_UNATTRIBUTED:
        return (
            f"{1 - launched:.0%} of the kernels have no launch in the trace: {m.share(UNATTRIBUTED):.0%} of the time has no known cause; "
            "trace with activities=[CPU, CUDA]"
        )
    return None


def is_inference(m: TraceMeasurements) -> bool:
    """Whether the trace would show a backward pass, and shows none."""
    return not m.training and (m.facts.framework == TORCH or m.facts.gradients is False)


def _not_healthy(m: TraceMeasurements, answers: Answers) -> str | None:
    """Why the training cannot be called healthy though no single finding is a bottleneck; None where it can."""
    unattributed = m.share(UNATTRIBUTED)
    if unattributed >= HEALTHY_UNATTRIBUTED:
        return f"{unattributed:.0%} of the time could not be attributed; {_shows_more(m)}"
    findings = [j.finding for j in answers.leading]
    unknown = next((f for f in findings if f.gain.predicted is None and f.share >= HEALTHY_SHARE_OF_UNKNOWN_GAIN), None)
    if unknown is not None:
        return f"what fixing {unknown.rule} would gain is not known ({unknown.share:.0%} of the time); try its first fix"
    together = combined_gain(answers.leading)
    if together >= BOTTLENECK_PREDICTED:
        if (findings[0].gain.predicted or 0.0) >= BOTTLENECK_PREDICTED:
            return f"the first finding's gain ({findings[0].gain.predicted:.2f}x) may be nothing; trace more steps"
        return f"no finding alone reaches 10 %, but all together predict {together:.2f}x; see the findings"
    for doubtful in (j.finding for j in answers.uncertain if _may_gain(j.finding)):
        return f"{doubtful.rule} may concern {doubtful.share_low:.0%} to {doubtful.share_high:.0%} of the time; trace more steps"
    for stage in STAGES:
        if stage != MODEL and m.share(stage) >= UNJUDGED_STAGE:
            return _beside_the_model(m, stage, any(f.stage == stage for f in findings))
    for skipped in answers.unjudged:
        rule = rules()[skipped.rule]
        if not skipped.advisory and max(m.share(stage) for stage in rule.stages) >= UNJUDGED_STAGE:
            return f"{skipped.rule} could not be judged: {skipped.reason}"
    return None


def _shows_more(m: TraceMeasurements) -> str:
    """What to do so that a next trace attributes more of the time."""
    if m.has_device:
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


def _beside_the_model(m: TraceMeasurements, stage: str, found: bool) -> str:
    """A stage that is no work of the model's, has much time, and of which no finding would take enough away."""
    share = f"{m.share(stage):.0%} of the time is {stage}"
    if stage == SHARED:
        return f"{share}, and {LATE_ONE_NOT_SEEN}"
    if found:
        return f"{share}, and what is known to help (below) takes too little of it away"
    return f"{share}, and no rule knows how to take it away; record the training: slowstep run"


def combined_gain(leading: list[Judged]) -> float:
    """The gain of all findings together. Their claims do not overlap, so the shares of the step that they remove add up."""
    removed = sum(1 - 1 / j.finding.gain.predicted for j in leading if j.finding.gain.predicted)
    return math.inf if removed >= 1 else 1 / (1 - removed)


def _next(m: TraceMeasurements, first: Finding) -> Next | None:
    """The largest stage once the first finding's part has gone; None where its gain is unknown."""
    if not first.gain.predicted:
        return None
    removed = 1 - 1 / first.gain.predicted
    claimed = {stage: m.share(stage, *map(whole, first.claims)) for stage in STAGES}
    held = max(sum(claimed.values()), removed, 1e-9)
    left = {stage: m.share(stage) - removed * claimed[stage] / held for stage in STAGES}
    stage = max(left, key=lambda s: left[s])
    step_ms = m.window_ns / max(len(m.step_ns), 1) / 1e6
    return Next(stage=stage, predicted=f"{stage}, {left[stage] * step_ms:.1f} of {(1 - removed) * step_ms:.1f} ms per step")
