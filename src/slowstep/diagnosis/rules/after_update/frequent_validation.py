"""Validation takes more of the time than is usual in a training.

What it sees:
    At least three validations in the window (a loader is read between updates and no batch of that pass is trained on), which hold at
    least 15 % of it; where there is no more than one for each pass over the training data, at least a third. Usual practice is one pass
    over a fifth of the data after each pass over the other four fifths, forward only, which is a third of a training step: (1/5) / (4/5)
    / 3 is 8 %. Twice that is the threshold; even as many validation samples as training samples, once per epoch, make only a quarter.
    Keras' fit validates after passes alone.
    Where most passes over the training data end early, more samples validated than trained on are more than one for each. In a loop
    without a loader passes are not known. A validation outside the innermost loop that makes the steps counts as one for each pass.
    Inside of it, more samples validated than trained on are more than one for each; what else holds 15 % to a third is not judged.
    One that is slow in itself is found from 15 % on, however seldom: it takes a fifth longer for a sample than the training does for its
    input, forward, backward and update, and calls the model once for each; where such calls are not recorded, its batches are less than
    half of the training's, or the model is not most of it. Else once for each pass is advice up to a third.
Why it costs:
    While the model is evaluated it does not train, and neighbouring validations say nearly the same.
How the gain is predicted:
    Every second validation is left out: r is half of the measured time of all, spread over the steps, and half of what steps after one take
    longer than their neighbours. B is what the loader's workers need per step. Of one that is slow in itself, r is what it takes above the
    training's own input and forward for as many samples of its size: at worst above a whole step, at best above the forward.
When it is wrong:
    Early stopping or a schedule may need each of them; whether they do is not known here. Metrics that are costly by their nature count as
    slow. Where most of it is the making of one loader's batches, the data set and, without workers, the function that holds most are named.
What to try:
    Validate every 2k steps instead of every k, on a fixed part of the validation data, or with workers, a larger batch and no gradients;
    make its batches cheaper where they take most of it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from enum import Enum

from slowstep.analyses.input.validation_batches import ValidationBatches
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.over_time.event_name import EventName
from slowstep.analyses.over_time.over_time import OccasionalEvent
from slowstep.analyses.python.calls import DOMINANT_SHARE
from slowstep.diagnosis.evidence.after_pause import after_pauses, longer_after, with_pauses
from slowstep.diagnosis.evidence.slow_validation import (
    HeldBy,
    SlowValidation,
    as_the_training,
    evidence_of,
    has_small_batches,
    slow_validation,
)
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE, concurrent_producers_ns, delay_share
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval, unknown_gain
from slowstep.diagnosis.lever_specs import VALIDATION_OFF, seldom
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.frameworks._words import Words
from slowstep.parts import VALIDATION
from slowstep.reasons import Wording
from slowstep.units import format_count, format_duration, format_ratio, format_share

NAME = "frequent-validation"
FEWEST = 3
# Twice the usual 8 %, see above.
SHARE_AT_LEAST = 0.15
SHARE_ONCE_AN_EPOCH = 1 / 3
# For each sample that is trained on: nobody holds back more of the data than is left to train on, so more were validated more than once.
MOST_SAMPLES = 1.0
# Where at least half of the passes over the training data were left before their end, a pass is not one over the data.
MOSTLY_SHORT = 0.5

PASSES_UNKNOWN = Wording(
    "passes-unknown",
    "validation takes {share:share} of the time, and without a loader it is not known where a pass ends: once in a pass over the "
    "training data that is no more than usual (under {usual:share}), more often it is too much; count it",
)


class Frequency(Enum):
    """How often the training validates, beside its passes over its data."""

    ONCE_A_PASS = "no more than once in each"
    HIGH = "more often"
    UNKNOWN = "where a pass ends is not known"


def judge(m: Measurements) -> Answer:
    """Whether validation takes more than usual, and what half as many would gain."""
    event = m.over_time.event(EventName.VALIDATION)
    if event is None or event.count < FEWEST or event.every_steps is None:
        return None
    interval = share_interval(m, event.ns)
    share, frequency = interval[0], _frequency(m, event)
    if share < SHARE_AT_LEAST:
        return None
    threshold = SHARE_AT_LEAST if frequency is Frequency.HIGH else SHARE_ONCE_AN_EPOCH
    slow = slow_validation(m)
    if slow is not None and (share < threshold or slow.left_ns < slow.pace.sample_ns / 2):
        return _slow_in_itself(m, event, slow, frequency, interval)
    if share >= threshold:
        return _too_often(m, event, frequency, interval, threshold)
    return _not_judged(share) if frequency is Frequency.UNKNOWN else _usual(m, event, frequency, interval)


def _too_often(
    m: Measurements, event: OccasionalEvent, frequency: Frequency, interval: tuple[float, float, float], threshold: float
) -> Judged:
    share, low, high = interval
    every = round(event.every_steps or 1)
    spared = after_pauses(m, event.ns, share=1 / 2)
    counterfactual = with_pauses(_half_as_many(m, event, f"there were a validation every {2 * every} steps, each as long as now"), spared)
    finding = Finding(
        rule=NAME,
        stage="output",
        title=f"validation every {every} steps takes {format_duration(event.each_ns)} each, {format_share(share)} of the time"
        f"{_mostly_in(m)}",
        share=share,
        share_low=low,
        share_high=high,
        claims=(VALIDATION,),
        evidence=(
            Evidence(name="validations", value=event.count, unit="in the window", threshold=FEWEST),
            Evidence(name="steps between them", value=every, unit="steps"),
            *_passes(m),
            *_batches(m),
            Evidence(name="one validation", value=event.each_ns / 1e6, unit="ms"),
            Evidence(name="validating", value=share, unit="share of window", threshold=threshold),
            *longer_after(spared),
            saved_by(m, counterfactual),
        ),
        gain=predict(m, counterfactual),
        fixes=(
            Fix(text=f"validate every {2 * every} steps{_seldom(m, event, frequency)}", lever=_lever(m)),
            *_cheaper(m),
            Fix(text=_less_data(m.training.words)),
        ),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _slow_in_itself(
    m: Measurements, event: OccasionalEvent, slow: SlowValidation, frequency: Frequency, interval: tuple[float, float, float]
) -> Judged:
    share, low, high = interval
    counterfactual = as_the_training(m, event.ns, slow, delay_share(m, event.part))
    finding = Finding(
        rule=NAME,
        stage="output",
        title=f"validation takes {format_duration(slow.pace.sample_ns)} for a sample, {format_ratio(slow.times)} what a whole step of the "
        f"training does, and {format_share(share)} of the time{_mostly_in(m) or _mostly_of(slow)}",
        share=share,
        share_low=low,
        share_high=high,
        claims=(VALIDATION,),
        evidence=(
            Evidence(name="validations", value=event.count, unit="in the window", threshold=FEWEST),
            *_batches(m),
            Evidence(name="one validation", value=event.each_ns / 1e6, unit="ms"),
            Evidence(name="validating", value=share, unit="share of window", threshold=SHARE_AT_LEAST),
            *evidence_of(slow),
            saved_by(m, counterfactual),
        ),
        gain=predict(m, counterfactual),
        fixes=(
            Fix(text=_faster(m, slow), bounded_by=None if _lever(m) is None else VALIDATION_OFF),
            *_cheaper(m),
            Fix(text=f"validate every {round(2 * (event.every_steps or 1))} steps{_seldom(m, event, frequency)}", lever=_lever(m)),
        ),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _usual(m: Measurements, event: OccasionalEvent, frequency: Frequency, interval: tuple[float, float, float]) -> Judged:
    """That it is a part of the time, which many trainings take for it, and what there is to gain at most."""
    share, low, high = interval
    every = round(event.every_steps or 1)
    finding = Finding(
        rule=NAME,
        stage="output",
        title=f"validation takes {format_share(share)} of the time, which is usual for one in each pass over the training data"
        f"{_mostly_in(m)}",
        share=share,
        share_low=low,
        share_high=high,
        claims=(),
        evidence=(
            Evidence(name="validations", value=event.count, unit="in the window", threshold=FEWEST),
            Evidence(name="steps between them", value=every, unit="steps"),
            *_passes(m),
            *_batches(m),
            Evidence(name="validating", value=share, unit="share of window", threshold=SHARE_ONCE_AN_EPOCH),
        ),
        gain=unknown_gain("validation took no time", share=share),
        fixes=(
            Fix(text=f"validate every {2 * every} steps{_seldom(m, event, frequency)}, if half as many tell as much", lever=_lever(m)),
            *_cheaper(m),
            Fix(text=_less_data(m.training.words)),
        ),
        advisory=True,
    )
    return Judged(finding=finding, counterfactual=None)


def _half_as_many(m: Measurements, event: OccasionalEvent, assumes: str) -> Counterfactual:
    removed = event.ns / 2
    beside = concurrent_producers_ns(m, spared_cpu_ns=float(removed.mean()))
    case = Case(removed_ns=removed, concurrent_ns=beside, delay_share=delay_share(m, event.part))
    pessimistic = replace(case, concurrent_ns=PESSIMISTIC_BESIDE * beside)
    return Counterfactual(assumes=assumes, expected=case, pessimistic=pessimistic, optimistic=case)


def _frequency(m: Measurements, event: OccasionalEvent) -> Frequency:
    if _validates_by_passes(m):
        return Frequency.ONCE_A_PASS
    if m.input.loader is not None:
        # The window's ends cut off one of either: two more validations than epochs are more than one for each.
        is_once = event.count <= m.over_time.restarts.count + 1
        return Frequency.ONCE_A_PASS if is_once and not _is_most_of_short_passes(m) else Frequency.HIGH
    known = m.over_time.validations
    if known is None or known.among_steps is None:
        return Frequency.UNKNOWN
    if not known.among_steps:
        return Frequency.ONCE_A_PASS
    return Frequency.HIGH if (known.samples_ratio or 0.0) > MOST_SAMPLES else Frequency.UNKNOWN


def _validates_by_passes(m: Measurements) -> bool:
    """Whether a framework's loop validates after passes over its data alone, and these are not cut short."""
    words = m.training.words
    return (
        m.training.reads is not None
        and m.trainer.steps_per_epoch is None
        and words.has(Remedy.VALIDATION_EPOCHS)
        and not _is_by_steps(words)
    )


def _is_by_steps(words: Words) -> bool:
    return words.has(Remedy.VALIDATION_STEPS) or words.has(Remedy.VALIDATION_BATCHES)


def _seldom(m: Measurements, event: OccasionalEvent, frequency: Frequency) -> str:
    """How the framework's trainer is asked for half as many; nothing where the loop is the script's."""
    words, restarts = m.training.words, m.over_time.restarts
    if words.has(Remedy.VALIDATION_EPOCHS) and (frequency is Frequency.ONCE_A_PASS or not _is_by_steps(words)):
        epochs = max(round(restarts.count / event.count), 1) if restarts.count else None
        return f": {words.write({Remedy.VALIDATION_EPOCHS: ... if epochs is None else 2 * epochs})}"
    every = 2 * (event.every_steps or 1)
    if words.has(Remedy.VALIDATION_STEPS):
        return f": {words.write({Remedy.VALIDATION_BY_STEPS: True, Remedy.VALIDATION_STEPS: round(every)})}"
    if not words.has(Remedy.VALIDATION_BATCHES):
        return ""
    batches = round(every * (m.steps.requests_per_step or 1))
    # More than an epoch has are counted over several, where they are not to be counted by epochs.
    changes: dict[Remedy, object] = {Remedy.VALIDATION_BATCHES: batches}
    if batches > (restarts.batches_each or math.inf):
        changes[Remedy.VALIDATION_EPOCHS] = None
    return f": {words.write(changes)}"


def _mostly_of(slow: SlowValidation) -> str:
    pace = slow.pace
    return f", most of it {slow.held_by.value}" if pace.function is None else f", most of it in {pace.function}"


def _faster(m: Measurements, slow: SlowValidation) -> str:
    """What brings it to the pace of the training, by what holds most of it."""
    words, batch = m.training.words, m.training.words.write({Remedy.VALIDATION_BATCH_SIZE: ...}) or "a larger batch"
    if slow.held_by is HeldBy.WAITING:
        return f"read its batches as fast as the training's: with workers that stay, and {batch}"
    if slow.held_by is HeldBy.FORWARDS or has_small_batches(m, slow.pace):
        without = f" and without gradients ({words.write({Remedy.NO_GRADIENTS: True})})" if words.has(Remedy.NO_GRADIENTS) else ""
        return f"call the model for more samples at a time ({batch}){without}{_and_less(slow)}"
    where = slow.pace.function or "the loop that validates"
    return f"do less for each sample in {where}: keep results as tensors, and judge them all at once at the end"


def _and_less(slow: SlowValidation) -> str:
    """Beside that, where it is not most of it."""
    return "" if slow.held_by is HeldBy.FORWARDS else f", and do less for each sample in {slow.pace.function or 'the loop that validates'}"


def _less_data(words: Words) -> str:
    part = f", {words.write({Remedy.VALIDATION_LENGTH: ...})}" if words.has(Remedy.VALIDATION_LENGTH) else ""
    batch = words.write({Remedy.VALIDATION_BATCH_SIZE: ...}) or "a larger batch"
    has_word = words.has(Remedy.NO_GRADIENTS) and not words.has_loop
    without_gradients = f" and {words.write({Remedy.NO_GRADIENTS: True})}" if has_word else ""
    return f"validate on a fixed part of the data{part}, with workers{' and' if words.has_loop else ','} {batch}{without_gradients}"


def _lever(m: Measurements) -> str | None:
    """None where the training's own loader is read: from outside its passes look like those that are trained on."""
    known = m.over_time.validations
    return None if known is not None and known.reads_own_loader else seldom(VALIDATION_OFF, 2)


def _is_most_of_short_passes(m: Measurements) -> bool:
    """Whether the training ends its passes early (a limit of batches for each epoch), and validates on more samples than it trains on."""
    restarts, known = m.over_time.restarts, m.over_time.validations
    is_short = restarts.cut_short >= MOSTLY_SHORT * restarts.count
    return is_short and known is not None and (known.samples_ratio or 0.0) > MOST_SAMPLES


def _not_judged(share: float) -> NotJudged:
    return NotJudged(rule=NAME, reason=PASSES_UNKNOWN(share=share, usual=SHARE_ONCE_AN_EPOCH), lever=seldom(VALIDATION_OFF, 2))


def _passes(m: Measurements) -> tuple[Evidence, ...]:
    """As evidence: the passes over the training data, or what is known in their place."""
    known = m.over_time.validations
    begun = m.over_time.restarts.count if m.input.loader is not None else None
    passes = Evidence(name="passes over the training data", value=begun, unit="begun in the window")
    if m.input.loader is not None and not _is_most_of_short_passes(m):
        return (passes,)
    if known is None or known.samples_ratio is None:
        return (passes,)
    return passes, Evidence(name="samples validated", value=known.samples_ratio, unit="per sample trained on", threshold=MOST_SAMPLES)


def _mostly_in(m: Measurements) -> str:
    """What takes most of a validation, as the end of the title."""
    batches = _made(m)
    if batches is None:
        return ""
    if batches.function is not None:
        return f", most of it in {batches.function}"
    return f", most of it {'waiting for' if batches.num_workers else 'making'} batches of {batches.dataset or 'one loader'}"


def _batches(m: Measurements) -> tuple[Evidence, ...]:
    batches = _made(m)
    if batches is None:
        return ()
    whose = f"batches of {batches.dataset or 'one loader'}, {format_count(batches.num_workers, 'worker')}"
    waiting = Evidence(name="waiting for batches", value=batches.share, unit="share of validating", threshold=DOMINANT_SHARE, where=whose)
    if batches.function is None:
        return (waiting,)
    within = f"{batches.function}, by stacks"
    return waiting, Evidence(name="most of it in", value=batches.function_share, unit="share of validating", where=within)


def _cheaper(m: Measurements) -> tuple[Fix, ...]:
    batches = _made(m)
    if batches is None or batches.function is None:
        return ()
    return (Fix(text=f"do less in {batches.function}, or once instead of in every validation"),)


def _made(m: Measurements) -> ValidationBatches | None:
    known = m.over_time.validations
    return None if known is None else known.batches


RULE = Rule(
    name=NAME,
    stages=("output",),
    topics=("compute", "input", "ledger", "machine", "over_time", "steps", "trainer", "training"),
    judge=judge,
)
