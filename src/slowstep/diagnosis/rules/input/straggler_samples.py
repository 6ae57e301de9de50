"""A few samples take many times as long to make as all others.

What it sees:
    Samples that took at least eight times as long as a sample usually does (each is timed where it is made, of those that take under 50 us
    on average as many as their making pays for, and such ones are recorded with their index), at most one in twenty and in at least three
    steps. What the training waits for them is at least 5 % of the window.
Why it costs:
    A batch is complete when its slowest sample is, and batches are handed over in order: one slow file holds up its batch, the batches that
    are ready behind it, and after a while all workers. One that keeps the GIL (a regular expression over a book, a loop
    in a library) also holds up the batches that its worker has ready: nothing of them is handed over meanwhile.
How the gain is predicted:
    r comes from a replay: the workers make the same batches in the same order with and without the excess of the slow samples over the
    usual, and the training asks for them as it did. Nothing else changes, so B is what the replay leaves. At worst a quarter of the
    excess stays.
When it is wrong:
    Times are wall times: a sample that was only held up (a busy disk, a core taken by others) is slow by accident. An index that is slow
    again in another epoch is no accident, and the evidence says how often each was.
What to try:
    Look at the samples named: shrink, re-encode or cache them, or leave them out. A larger prefetch_factor or DataLoader(in_order=False)
    hides some, but little of samples that keep the GIL: with a factor of 8 in place of 2, 27.6 ms a step of 29.9 were left,
    and 19.4 without those samples (medians of three runs on two busy cores).
"""

from __future__ import annotations

from slowstep.analyses.input.stragglers import Stragglers
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.calls import DOMINANT_SHARE
from slowstep.diagnosis.evidence.input.input_causes import FEWEST_SLOW_STEPS, MOST_SLOW_SAMPLES, few_slow_samples, most_of_a_sample
from slowstep.diagnosis.evidence.input.input_side import WAIT_SHARE, claims, removable_waits, wait_stage
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval
from slowstep.diagnosis.lever_specs import mock_loader
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix
from slowstep.frameworks._remedies import Remedy
from slowstep.units import format_duration

NAME = "straggler-samples"
LEFT_PESSIMISTIC = 0.25
# Batches that each worker makes ahead: four times as many as by itself.
AHEAD = 8


def judge(m: Measurements) -> Answer:
    """Whether few slow samples keep the training waiting."""
    found = few_slow_samples(m)
    if found is None:
        return None
    share, low, high = share_interval(m, found.removed_ns)
    parts = claims(m)
    if share < WAIT_SHARE or not parts:
        return None
    case = Case(removed_ns=found.removed_ns)
    pessimistic = Case(removed_ns=(1 - LEFT_PESSIMISTIC) * found.removed_ns)
    # Without workers nothing is made ahead, and torch takes no prefetch_factor.
    has_workers = m.input.loader is not None and m.input.loader.num_workers > 0
    words = "slow samples took as long as the others"
    counterfactual = Counterfactual(assumes=words, expected=case, pessimistic=pessimistic, optimistic=case)
    finding = Finding(
        rule=NAME,
        stage=wait_stage(m),
        title=f"{found.count} samples take {format_duration(found.each_ns)}, the others {format_duration(found.usual_ns)}: {_which(found)}",
        share=share,
        share_low=low,
        share_high=high,
        claims=parts,
        evidence=(*_evidence(found, share), *most_of_a_sample(m), saved_by(m, counterfactual)),
        gain=predict(m, counterfactual),
        fixes=(
            Fix(
                text="look at the samples named: shrink, re-encode or cache them (not what is drawn at random), or leave them out",
                bounded_by=mock_loader(m),
            ),
            *((_made_ahead(m),) if has_workers and not found.keep_the_lock else ()),
        ),
        names=_which(found) if found.named else None,
        # Where other samples make most of the waits, what makes those is the cause.
        names_cause=bool(found.removed_ns.sum() >= DOMINANT_SHARE * removable_waits(m).sum()),
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _made_ahead(m: Measurements) -> Fix:
    hiding = m.training.words.write({Remedy.PREFETCH: AHEAD, Remedy.ANY_ORDER: False}) or "making more batches ahead"
    return Fix(text=f"{hiding} hides some of it", changes_numerics=m.training.words.has(Remedy.ANY_ORDER))


def _evidence(found: Stragglers, share: float) -> tuple[Evidence, ...]:
    rate = found.count / found.of_samples if found.of_samples else None
    return (
        Evidence(name="slow samples", value=found.count, unit="samples", where=_which(found)),
        Evidence(name="of all samples", value=rate, unit="share of samples", threshold=MOST_SLOW_SAMPLES),
        Evidence(name="one of them", value=found.each_ns / 1e6, unit="ms", threshold=8 * found.usual_ns / 1e6),
        Evidence(name="a usual one", value=found.usual_ns / 1e6, unit="ms"),
        Evidence(name="steps that wait for one", value=found.steps, unit="steps", threshold=FEWEST_SLOW_STEPS),
        Evidence(name="waiting for them", value=share, unit="share of window", threshold=WAIT_SHARE),
    )


def _which(found: Stragglers) -> str:
    if not found.named:
        return "their indices are not known"
    known = ", ".join(f"{index} ({times}x)" if times > 1 else str(index) for index, times in found.named)
    return f"index {known}"


RULE = Rule(
    name=NAME,
    stages=("read", "preprocess"),
    topics=("input", "ledger", "machine", "over_time", "steps", "trainer", "training"),
    judge=judge,
)
