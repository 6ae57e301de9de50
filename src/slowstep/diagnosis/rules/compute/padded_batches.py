"""Much of what the model computes on is padding.

What it sees:
    A glance at some two dozen of the training's batches: whole numbers in two dimensions whose sequences end (or begin) in places that a
    mask marks, or in runs of one value that stands nowhere else in them. A finding claims at least 3 % of the window
    (docs/definitions.md).
Why it costs:
    Layers compute on places that hold nothing just as on all others; attention does so for each pair of them.
How the gain is predicted:
    Of forward and backward, the part that grows with the length, by the shapes in a few of their graphs and what operations, elements and
    products cost (benchmarks/padded_lengths.py: half a length was predicted to save, of nine models, what it saved within 0.16 of all),
    times the places that are left out where each batch is no longer than its longest sequence. Where it is no longer already, where
    sequences of like length share a batch: as sorting all that were seen leaves; at worst as sorting eight batches, at best no padding at
    all. B is what the loader's workers need per step. Those costs are a processor's: on an accelerator the interval begins at no gain.
When it is wrong:
    A model that leaves padding out itself (packed sequences, nested tensors) is not known by its shapes in every case. Batches that a
    script makes without torch's loader are not looked at, nor are fewer than four sequences, sequences of vectors or of zeros and ones,
    or what is in objects of a script's own classes. A mask of other values than zeros and ones is none. Without one nothing is said where
    the value that fills also stands inside a sequence, where another array of the same places is full, or where most sequences rise or
    fall to it. What ends in a state that lasts (a customer who has left) looks like padding. Where widths, heads or pixels are as many as
    places the work on them is not counted; of compiled models nobody tells the shapes. Models with weights for each place take no shorter
    sequences, and nothing is found in them; others may do so by a table of places that is added whole, and then need a change. Shapes
    that change from batch to batch are compiled or planned for again by some backends. Attention that gives no scores
    (scaled_dot_product_attention) counts with the length, not with its square: long padding then costs more than is said.
What to try:
    Padding in the function that collates, up to the longest sequence of the batch; then sequences of like length in one batch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slowstep.analyses.input.padding import Padding
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE, concurrent_producers_ns
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval, share_queued
from slowstep.diagnosis.law import HEALTHY_SHARE_OF_UNKNOWN_GAIN
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import Part, PartKind
from slowstep.reasons import Wording
from slowstep.units import format_share

NAME = "padded-batches"
PASSES = (PartKind.FORWARD_AND_REST, PartKind.FORWARD, PartKind.BACKWARD)

# Several lengths may be dimensions of one value, as of an attention from targets to inputs.
MOST_REMOVED = 0.95

NOT_LOOKED_AT = Wording("padding-not-looked-at", "no batch was looked at for padding")
GROWTH_UNKNOWN = Wording(
    "padded-work-unknown",
    "{padded:share} of the places in its sequences are padding, and what of the model's work grows with their length is unknown: "
    "its graph was not seen; try batches that are padded to their longest sequence",
)


class _Spared(NamedTuple):
    """Of forward and backward what a fix removes, 0 to 1."""

    expected: float
    pessimistic: float
    optimistic: float


def judge(m: Measurements) -> Answer:
    """Whether shorter batches would spare work."""
    if m.input.padding is None:
        # Nothing tells of sequences at all: that alone leaves no verdict in doubt.
        return NotJudged(rule=NAME, reason=NOT_LOOKED_AT(), advisory=True)
    found = m.input.padding.found
    if not found:
        return None
    if any(padding.work is None for padding in found):
        return _unknown(m, found[0])
    to_longest, bucketed = _saved(m, found, by_length=False), _saved(m, found, by_length=True)
    by_length = all(padding.is_dynamic for padding in found) or _share(m, to_longest.expected) < CLAIM
    shares = bucketed if by_length else to_longest
    if _share(m, shares.expected) < CLAIM:
        return None
    return _judged(m, found, shares, by_length=by_length)


def _unknown(m: Measurements, padding: Padding) -> Answer:
    """Where nothing tells what grows with the length: not judged, if it may matter."""
    if _share(m, 1 - padding.bucketed.squares) < HEALTHY_SHARE_OF_UNKNOWN_GAIN:
        return None
    return NotJudged(rule=NAME, reason=GROWTH_UNKNOWN(padded=padding.padded))


def _saved(m: Measurements, found: tuple[Padding, ...], *, by_length: bool) -> _Spared:
    """What a fix removes of all sequences: of several kinds (of inputs and of targets) each with what grows with its own length."""
    each = [_saved_of(padding, by_length=by_length) for padding in found]
    expected, pessimistic, optimistic = (min(sum(shares), MOST_REMOVED) for shares in zip(*each, strict=True))
    return _Spared(expected, pessimistic if m.compute.device == "cpu" else 0.0, optimistic)


def _saved_of(padding: Padding, *, by_length: bool) -> _Spared:
    left, by_less, by_more = (padding.to_longest,) * 3
    if by_length:
        left, by_less, by_more = padding.bucketed, padding.partly, padding.unpadded
    work = padding.work
    assert work is not None
    expected = 1 - left.of(work.usual)
    return _Spared(expected, min(1 - by_less.of(work.least), expected), max(1 - by_more.of(work.most), expected))


def _passes(m: Measurements) -> tuple[Part, ...]:
    return m.ledger.parts_of("compute", *PASSES) or m.ledger.parts_of("compute")


def _passes_ns(m: Measurements) -> tuple[Floats, Floats]:
    """Forward and backward per step without what they wait for a core, and with their share of that."""
    own = m.ledger.of_parts(*_passes(m))
    delay = m.ledger.of("compute", PartKind.CORE_WAIT)
    whole = float((m.ledger.of("compute") - delay).sum())
    return own, np.asarray(own + delay * (float(own.sum()) / whole if whole > 0 else 0.0))


def _share(m: Measurements, removed: float) -> float:
    return share_interval(m, _passes_ns(m)[1] * removed)[0]


def _judged(m: Measurements, found: tuple[Padding, ...], shares: _Spared, *, by_length: bool) -> Judged:
    padding = found[0]
    _, passes = _passes_ns(m)
    share, low, high = (
        share_interval(m, passes * each)[at] for at, each in enumerate((shares.expected, shares.pessimistic, shares.optimistic))
    )
    counterfactual = _counterfactual(m, shares, by_length=by_length)
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=f"{format_share(padding.padded)} of the places in the model's sequences are padding: the work on them takes "
        f"{format_share(share)} of the time",
        share=share,
        share_low=min(low, share),
        share_high=max(high, share),
        claims=_passes(m),
        evidence=(*_rows(padding), *_others(found[1:]), saved_by(m, counterfactual)),
        gain=predict(m, counterfactual),
        fixes=_fixes(m, padding, by_length=by_length),
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _rows(padding: Padding) -> tuple[Evidence, ...]:
    where = "by a mask" if padding.by_mask else f"filled with {padding.value}"
    work = padding.work
    grows = None if work is None else work.usual.linear + work.usual.square
    return (
        Evidence(name="padding", value=padding.padded, unit="share of places", where=f"{where}, {padding.batches} batches"),
        Evidence(name="places of a sequence", value=padding.length, unit="places"),
        Evidence(name="its longest of a batch", value=padding.longest, unit="places"),
        Evidence(name="needed up to its longest", value=padding.to_longest.places, unit="share of places"),
        Evidence(name="needed in batches by length", value=padding.bucketed.places, unit="share of places"),
        Evidence(name="grows with the length", value=grows, unit="share of forward and backward"),
    )


def _others(found: tuple[Padding, ...]) -> tuple[Evidence, ...]:
    """Of other sequences in the batches how much is padding."""
    return tuple(
        Evidence(name=f"padding of those of {padding.length:.0f} places", value=padding.padded, unit="share of places") for padding in found
    )


def _fixes(m: Measurements, padding: Padding, *, by_length: bool) -> tuple[Fix, ...]:
    words = m.training.words
    # Other samples in a batch are another order of training; padding that no mask hides may be a part of what the model makes.
    bucket = Fix(text=words.advise(Remedy.BUCKET), changes_numerics=True)
    longest = Fix(text=words.advise(Remedy.PAD_TO_LONGEST), changes_numerics=not padding.by_mask)
    if padding.is_dynamic:
        return (bucket,)
    return (bucket, longest) if by_length else (longest, bucket)


def _counterfactual(m: Measurements, shares: _Spared, *, by_length: bool) -> Counterfactual:
    working, passes = _passes_ns(m)

    def case(removed: float, factor: float, of: Floats) -> Case:
        return Case(
            removed_ns=of * removed,
            concurrent_ns=factor * concurrent_producers_ns(m, spared_cpu_ns=float(working.mean()) * removed),
            delay_share=share_queued(of - working, of),
        )

    each = "sequences of like length shared a batch, which" if by_length else "each batch"
    return Counterfactual(
        assumes=f"{each} were no longer than its longest sequence, and work on places cost what it did in slowstep's benchmark",
        expected=case(shares.expected, 1.0, passes),
        pessimistic=case(shares.pessimistic, PESSIMISTIC_BESIDE, working),
        optimistic=case(shares.optimistic, 1.0, passes),
    )


RULE = Rule(
    name=NAME,
    stages=("compute",),
    topics=("compute", "input", "ledger", "machine", "steps", "training"),
    judge=judge,
)
