"""How a training is judged by a profiler's trace of a few of its steps."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.profiled.not_shown import ALL_STEPS
from slowstep.diagnosis.law import (
    BOTTLENECK_PREDICTED,
    HEALTHY_SHARE_OF_UNKNOWN_GAIN,
    HEALTHY_UNATTRIBUTED,
    MODEL,
    RULE_NOT_JUDGED,
    UNATTRIBUTED_TIME,
    UNJUDGED_STAGE,
    Answers,
    gain_not_known,
    large_together,
    may_be_bottleneck,
    of_unknown_gain,
    rules,
)
from slowstep.diagnosis.trace_doubts import open_at_all
from slowstep.diagnosis.viewpoint import Doubt, Viewpoint
from slowstep.findings import Finding, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.reasons import OWN_WORDS, Reason, Value, Wording
from slowstep.stages import STAGES, UNATTRIBUTED

# The stage that depends on other ranks.
SHARED: Final = "gradient_sharing"
TRACE_MORE: Final = "trace more steps"

# What `among_ranks` says otherwise, once other ranks are seen.
LATE_ONE_NOT_SEEN = Wording(
    "late-one-not-seen",
    "{share:share} of the time is {stage:stage}, and whether this rank waits for a late one is not seen: "
    "analyze the folder of all ranks' traces",
)
FIXES_SAVE_TOO_LITTLE = Wording(
    "fixes-save-too-little", "{share:share} of the time is {stage:stage}, and the fixes below would save too little of it"
)
NO_FIX_FOR_STAGE = Wording(
    "no-fix-for-stage",
    "{share:share} of the time is {stage:stage}, and no fix for it is known; record the training: slowstep run",
)
MAY_CONCERN = Wording("may-concern", f"{{rule}} may concern {{low:share}} to {{high:share}} of the time; {TRACE_MORE}")
CHOSEN_STEP = Wording("chosen-step", "in the one step that you chose ({number}, of {of})")
NOTHING_IN_CHOSEN_STEP = Wording(
    "nothing-in-chosen-step",
    f"no problem was found in it that costs 10 % or more, which says nothing about the other steps: {ALL_STEPS}",
)
NO_PROBLEM_IN_TRACE = Wording(
    "no-problem-in-trace", "no problem was found that costs 10 % or more: {share:share} of the time is {stage:stage}{busy}"
)
DEVICE_BUSY = Wording("device-busy", ", the device is busy {share:share} of it")
STEPS_DIFFER = Wording("steps-differ", f"{{title}}, but steps differ: it may be {{low:share}} to {{high:share}} of the time; {TRACE_MORE}")
BY_RECORDING = Wording(
    "by-recording",
    "{title}, but recording took some {low:share} to {high:share} of the host's time, and without it nothing would come of the fix; "
    "to see, {remedy}",
)


def _claimed(_: Measurements, answers: Answers) -> Answers:
    """What gains something. A replay knows what stands behind a part: where nothing comes of taking it away, there is nothing to advise."""
    gaining = [judged for judged in answers.leading if _gains(judged.finding)]
    return replace(answers, leading=gaining, gainless=[judged for judged in answers.leading if not _gains(judged.finding)])


def _gains(finding: Finding) -> bool:
    """Whether anything comes of its fix, to two digits, as far as that is known."""
    return round(finding.gain.predicted or math.inf, 2) > 1.0


def _uneven(_: Measurements, answers: Answers) -> tuple[NotJudged, ...]:
    """Findings of a large share that differs so much from step to step that it may be nothing: they are not claimed, but said."""
    findings = [judged.finding for judged in answers.uncertain]
    large = [finding for finding in findings if finding.share >= HEALTHY_SHARE_OF_UNKNOWN_GAIN and _gains(finding)]
    return tuple(
        NotJudged(rule=finding.rule, reason=STEPS_DIFFER(title=_title(finding), low=finding.share_low, high=finding.share_high))
        for finding in large
    )


def _title(finding: Finding) -> Value:
    """What a reason says of it first."""
    return finding.title if finding.opens_with_name else OWN_WORDS(words=finding.title)


def _by_recording(m: Measurements, answers: Answers) -> tuple[NotJudged, ...]:
    """What would gain in the trace and nothing without a profiler, as far as its cost is known: it is not claimed, but said."""
    share = m.replay.profiler_share
    if share is None:
        return ()
    findings = [judged.finding for judged in answers.gainless if _optimistic(judged.finding) >= BOTTLENECK_PREDICTED]
    low, high = share
    remedy = m.training.words.advise(Remedy.RECORD_LESS)
    return tuple(NotJudged(rule=f.rule, reason=BY_RECORDING(title=_title(f), low=low, high=high, remedy=remedy)) for f in findings)


def _optimistic(finding: Finding) -> float:
    """The gain at most; infinite where a known one has no upper end."""
    gain = finding.gain
    return (0.0 if gain.predicted is None else math.inf) if gain.high is None else gain.high


def _scope(m: Measurements) -> Reason | None:
    """Which step a verdict is of; None where all steps are looked at.

    A step that the user chose may have a bottleneck, by the same law, and the sentence says that it is that step's. It is never healthy:
    that is said of a training, and one step tells nothing of the others.
    """
    return CHOSEN_STEP(number=m.marks.table["number"][0], of=m.marks.whole_steps) if m.marks.is_chosen else None


def _not_healthy(m: Measurements, answers: Answers) -> Doubt | None:
    """A gain that is not known stands before known ones that are large together: no experiment can follow that measures those."""
    return (
        _unattributed(m)
        or _gain_not_known(answers)
        or _together(m, answers)
        or _uncertain(answers)
        or _beside_the_model(m, answers)
        or _unjudged(m, answers)
        or (Doubt(NOTHING_IN_CHOSEN_STEP()) if m.marks.is_chosen else None)
    )


def _unattributed(m: Measurements) -> Doubt | None:
    share = m.ledger.share(UNATTRIBUTED)
    return Doubt(UNATTRIBUTED_TIME(share=share, remedy=_shows_more(m))) if share >= HEALTHY_UNATTRIBUTED else None


def _gain_not_known(answers: Answers) -> Doubt | None:
    unknown = of_unknown_gain(answers)
    if unknown is None:
        return None
    return Doubt(gain_not_known(unknown, "try its first fix"))


def _together(m: Measurements, answers: Answers) -> Doubt | None:
    reason = large_together(m, answers, TRACE_MORE)
    return None if reason is None else Doubt(reason)


def _uncertain(answers: Answers) -> Doubt | None:
    """What may be nothing, and may be a bottleneck."""
    finding = next((judged.finding for judged in answers.uncertain if may_be_bottleneck(judged.finding)), None)
    return None if finding is None else Doubt(MAY_CONCERN(rule=finding.rule, low=finding.share_low, high=finding.share_high))


def _beside_the_model(m: Measurements, answers: Answers) -> Doubt | None:
    """A stage that is no work of the model's, has much time, and of which no finding would take enough away."""
    stage = next((stage for stage in STAGES if stage != MODEL and m.ledger.share(stage) >= UNJUDGED_STAGE), None)
    if stage is None:
        return None
    is_found = any(judged.finding.stage == stage for judged in answers.leading)
    share = m.ledger.share(stage)
    if stage != SHARED and not is_found:
        return Doubt(NO_FIX_FOR_STAGE(share=share, stage=stage))
    wording = LATE_ONE_NOT_SEEN if stage == SHARED else FIXES_SAVE_TOO_LITTLE
    return Doubt(wording(share=share, stage=stage))


def _unjudged(m: Measurements, answers: Answers) -> Doubt | None:
    for skipped in answers.unjudged:
        stages = rules()[skipped.rule].stages
        if not skipped.advisory and max(map(m.ledger.share, stages)) >= UNJUDGED_STAGE:
            return Doubt(RULE_NOT_JUDGED(rule=skipped.rule, reason=skipped.reason), by_fault=skipped.by_fault)
    return None


def _shows_more(m: Measurements) -> str:
    """What to do so that a next trace attributes more of the time."""
    words = m.training.words
    return (
        words.advise(Remedy.RECORD_HOST) if m.device.seen else f"name what runs then: {words.advise(Remedy.NAME_RANGE, name='save_images')}"
    )


def _no_problem(m: Measurements, stage: str) -> Reason:
    busy = None if m.device.busy_share is None else DEVICE_BUSY(share=m.device.busy_share)
    return NO_PROBLEM_IN_TRACE(share=m.ledger.share(stage), stage=stage, busy=busy)


TRACE: Final = Viewpoint(
    topics=("device", "marks", "replay"),
    claimed=_claimed,
    unclaimed=(_uneven, _by_recording),
    open_at_all=open_at_all,
    scope=_scope,
    # What is done by hand is said with the command that traces once more.
    explain_more=lambda m: (_shows_more(m), None),
    not_the_cause=lambda *_: None,
    not_healthy=_not_healthy,
    healthy=_no_problem,
)
