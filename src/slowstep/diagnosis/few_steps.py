"""Trainings with too few steps for a verdict: what there is, as provisional, and how long enough steps take."""

from __future__ import annotations

import math
from dataclasses import replace

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import ENOUGH_NS, ENOUGH_STEPS, STEPS_AT_LEAST, WARMUP_AT_MOST_SHARE
from slowstep.diagnosis.law import Answers
from slowstep.diagnosis.rule import Judged
from slowstep.findings import EvidenceCode
from slowstep.part_words import part_in_words
from slowstep.reasons import Reason, Wording
from slowstep.stages import STAGES, UNATTRIBUTED

# With the longest warm-up that is left out.
FOR_A_VERDICT = math.ceil(STEPS_AT_LEAST / (1 - WARMUP_AT_MOST_SHARE))
# What is worth a word of it.
LARGEST_PART = 0.1

FEW_STEPS = Wording(
    "few-steps",
    "{count:count step} {count:plural is|are} too few for a verdict{warmup}: record {enough}. Provisionally, {largest}",
)
WITH_WARMUP = Wording("with-warmup", ", and {count:plural it is|they include} the warm-up")
MOST_IS = Wording("most-is", "most is {stage:stage}, {share:share}{part}")
LARGEST_IS = Wording("largest-is", "the largest is {stage:stage}, {share:share}{part}")
ENOUGH = Wording("enough", "{steps:count step} or more, about {ns:duration}")
# Short ones are over before there are stacks enough.
ENOUGH_OF_SHORT = Wording("enough-of-short", f"{{steps:count step}} or more, and {ENOUGH_NS / 1e9:.0f} s at least")
# Of enough steps that were over too soon.
ENOUGH_TIME = Wording("enough-time", f"{ENOUGH_NS / 1e9:.0f} s or more")
LARGEST_PART_IS = Wording("largest-part-is", " ({name} {share:share})")


def is_provisional(m: Measurements) -> bool:
    """Whether the window holds too few steps for a verdict."""
    return m.steps.count < STEPS_AT_LEAST


def enough_ns(m: Measurements) -> float:
    """How long enough steps take at this pace, from the first update on."""
    return FOR_A_VERDICT * float(m.step_ns.mean())


def enough_steps(m: Measurements) -> int:
    """How many steps to ask for: of long ones no more than a verdict takes."""
    return FOR_A_VERDICT if is_provisional(m) and enough_ns(m) >= ENOUGH_NS else ENOUGH_STEPS


def enough(m: Measurements) -> Reason:
    """How much is to be recorded: so many steps, and how long that is."""
    steps = enough_steps(m)
    ns = steps * float(m.step_ns.mean())
    return ENOUGH(steps=steps, ns=ns) if ns >= ENOUGH_NS else ENOUGH_OF_SHORT(steps=steps)


def why_provisional(m: Measurements) -> Reason:
    """That they are too few, what most of the time is nevertheless, and how many are enough."""
    count = m.steps.count
    return FEW_STEPS(
        count=count,
        warmup=WITH_WARMUP(count=count) if m.steps.includes_warmup else None,
        enough=enough(m),
        largest=_largest(m),
    )


def provisional(answers: Answers) -> Answers:
    """The same without gains: of so few steps none is claimed, and no fix tried on its account."""
    return replace(answers, leading=[_without_gain(judged) for judged in answers.leading])


def _without_gain(judged: Judged) -> Judged:
    finding = judged.finding
    unknown = replace(finding.gain, predicted=None, low=None, high=None, steady_low=None)
    known = tuple(row for row in finding.evidence if row.code is not EvidenceCode.SAVED_BY_FIX) or finding.evidence
    return Judged(finding=replace(finding, gain=unknown, evidence=known), counterfactual=None)


def _largest(m: Measurements) -> Reason:
    """The stage with most time, and its largest part: "most is compute, 92 % (forward 60 %)"."""
    stage = max((*STAGES, UNATTRIBUTED), key=m.ledger.share)
    share = m.ledger.share(stage)
    wording = MOST_IS if share > 0.5 else LARGEST_IS
    parts = m.ledger.parts_of(stage) if stage != UNATTRIBUTED else ()
    part = max(parts, key=m.ledger.share_of, default=None)
    if part is None or m.ledger.share_of(part) < LARGEST_PART:
        return wording(stage=stage, share=share, part=None)
    return wording(stage=stage, share=share, part=LARGEST_PART_IS(name=part_in_words(part), share=m.ledger.share_of(part)))
