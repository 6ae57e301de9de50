"""Taking a batch over from a worker takes long, though it is ready.

It is made of many tensors, is very large, or comes with its worker's state.

What it sees:
    Receiving batches, beyond the millisecond that any batch takes, holds at least 5 % of the window, and the batches that were looked at
    hold at least 8 tensors or 8 MB: that explains it. (Fewer and smaller ones are received late because the machine is busy.) Or the
    loader can go on in the middle of an epoch, for which its workers send their state with at least one batch in ten, and they take a
    millisecond or more a batch in which they neither make one nor wait; then what the batch's own form explains is left out.
Why it costs:
    Every tensor travels as a piece of shared memory of its own: a file descriptor is sent, received, mapped and later unmapped, one tensor
    after the other, on the training thread. Measured on two busy cores with batches of 1 to 200 tensors and of 1 KB to 64 MB: 0.35 to
    0.45 ms per tensor, and 0.4 to 1.5 ns per byte for pages that are mapped and given back. A state is copied and pickled by the worker,
    and unpickled on the training thread.
How the gain is predicted:
    r is the time of receiving beyond a millisecond per batch, not more than what the measured costs per tensor and byte explain; at worst
    half of it, at best all but 0.3 ms. Where workers send their state, r is all of that time (half of it at worst) and what Python's
    garbage collector takes meanwhile, which the objects of the state set off (at best all that it takes, for it walks over what was
    received). B is what making batches takes.
When it is wrong:
    A training thread that waits for a core while it receives. A pinning thread (pin_memory) receives in the background.
What to try:
    Tensors in place of NumPy's arrays, which are pickled through a pipe (a batch of 12.6 MB: 37.8 ms a step, 27.9 as tensors).
    Send one tensor per type (pack, and split after receipt); send 8-bit values and convert them after receipt.
    Have a state sent as often as checkpoints are written, or make it smaller.
"""

from __future__ import annotations

import numpy as np

from slowstep.analyses.batches.loader import Loader
from slowstep.analyses.batches.transfer import BYTE_NS, RECEIVE_NS, TENSOR_NS
from slowstep.analyses.input.input_facts import Forms
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.calls import DOMINANT_SHARE
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.evidence.input.input_side import RECEIVE_LOW_NS, WAIT_SHARE, concurrent_ns, find_side
from slowstep.diagnosis.evidence.input.sent_state import sends_state
from slowstep.diagnosis.evidence.record_longer import record_longer
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.frameworks._words import Words
from slowstep.parts import COLLECTION, Part, PartKind
from slowstep.reasons import Reason, Wording
from slowstep.units import format_duration

NAME = "batch-transport"
TRANSPORT = Part("preprocess", PartKind.TRANSPORT)
TENSORS, SIZE_BYTES = 8, 8_000_000
# What is written into the advice: checkpoints are rarely written more often.
SELDOM = 500
# From this share of the window on, not knowing what the batches are made of could hide a problem worth 10 %.
UNKNOWN_SHARE = 0.10

FORM_NOT_RECORDED = Wording("form-not-recorded", "what the batches are made of was not recorded: {remedy}")


def judge(m: Measurements) -> Answer:
    """Whether the batches themselves are slow to take over."""
    side = find_side(m)
    if m.input.loader is None or not m.input.loader.num_workers or isinstance(side, Reason):
        return None
    received = m.ledger.of_parts(TRANSPORT)
    share, _, _ = share_interval(m, np.maximum(received - RECEIVE_NS, 0.0))
    forms = m.input.facts.forms
    beyond = np.maximum(received - np.maximum(RECEIVE_NS, 0.0 if forms is None else _explained_ns(forms)), 0.0)
    if sends_state(m) and share_interval(m, beyond)[0] >= WAIT_SHARE:
        return _with_state(m, m.input.loader, received, beyond, concurrent_ns(side, m.input.loader.num_workers))
    if forms is None:
        may_be_large = m.input.demand.batch_bytes is None or m.input.demand.batch_bytes >= SIZE_BYTES
        if share < UNKNOWN_SHARE or m.machine.load.busy or not may_be_large:
            return None
        return NotJudged(rule=NAME, reason=FORM_NOT_RECORDED(remedy=record_longer(m)))
    if share < WAIT_SHARE or (forms.tensors < TENSORS and forms.size_bytes < SIZE_BYTES):
        return None
    counterfactual = _counterfactual(received, forms, concurrent_ns(side, m.input.loader.num_workers))
    removed = counterfactual.expected.removed_ns
    share, low, high = share_interval(m, removed)
    many = forms.tensors >= TENSORS
    what = f"{forms.tensors:.0f} tensors" if many else f"{forms.size_bytes / 1e6:.0f} MB"
    finding = Finding(
        rule=NAME,
        stage="preprocess",
        title=f"a batch of {what} takes {float(received.mean()) / 1e6:.1f} ms to receive from its worker, though it is ready",
        share=share,
        share_low=low,
        share_high=high,
        claims=(TRANSPORT,),
        evidence=_evidence(m, received, forms, counterfactual),
        gain=predict(m, counterfactual),
        fixes=(_fix(forms, m.training.words),),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _with_state(m: Measurements, loader: Loader, received: Floats, removed: Floats, concurrent: float) -> Judged:
    """That it is the state of the data set, which comes with batches: what these do not explain goes with it."""
    collections = m.ledger.of_parts(COLLECTION)
    collected = collections * min(m.python.garbage.in_waits_ns / max(float(collections.mean()), 1.0), 1.0)
    counterfactual = Counterfactual(
        assumes="workers sent their state as often as checkpoints are written, and a batch were received in 1 ms",
        expected=Case(removed_ns=removed + collected, concurrent_ns=concurrent),
        pessimistic=Case(removed_ns=removed / 2, concurrent_ns=concurrent),
        optimistic=Case(removed_ns=np.maximum(received - RECEIVE_LOW_NS, 0.0) + m.ledger.of_parts(COLLECTION), concurrent_ns=concurrent),
    )
    share, low, high = share_interval(m, removed)
    words, often = m.training.words, loader.snapshot_every or 1
    seldom = words.write({Remedy.SNAPSHOT_SELDOM: SELDOM}) or words.advise(Remedy.SNAPSHOT_SELDOM)
    every = "each batch" if often == 1 else f"one batch in {often}"
    finding = Finding(
        rule=NAME,
        stage="preprocess",
        title=f"the state of {loader.dataset or 'the data set'} is sent with {every}: {format_duration(received.mean())} to receive both",
        share=share,
        share_low=low,
        share_high=high,
        claims=(TRANSPORT,),
        evidence=(
            Evidence(name=words.name_of(Remedy.SNAPSHOT_SELDOM, "sent with"), value=often, unit="batches", where=loader.data_set),
            Evidence(name="workers neither make batches nor wait", value=m.input.demand.between_batches_ns / 1e6, unit="ms per step"),
            Evidence(name="receiving", value=float(received.mean()) / 1e6, unit="ms per step", threshold=RECEIVE_NS / 1e6),
            *_collected(collected),
            saved_by(m, counterfactual),
        ),
        gain=predict(m, counterfactual),
        fixes=(
            Fix(text=f"{seldom}: as seldom as checkpoints are written"),
            Fix(text=words.advise(Remedy.SMALLER_STATE)),
        ),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _collected(ns: Floats) -> tuple[Evidence, ...]:
    """Garbage collections that the objects of a state set off while they are received, where there are any."""
    collected_ms = float(ns.mean()) / 1e6
    return (Evidence(name="collecting garbage meanwhile", value=collected_ms, unit="ms per step"),) if collected_ms else ()


def _evidence(m: Measurements, received: Floats, forms: Forms, counterfactual: Counterfactual) -> tuple[Evidence, ...]:
    return (
        Evidence(name="tensors per batch", value=forms.tensors, unit="tensors", threshold=TENSORS),
        Evidence(name="size of a batch", value=forms.size_bytes / 1e6, unit="MB", threshold=SIZE_BYTES / 1e6),
        Evidence(name="receiving", value=float(received.mean()) / 1e6, unit="ms per step", threshold=RECEIVE_NS / 1e6),
        saved_by(m, counterfactual),
    )


def _fix(forms: Forms, words: Words) -> Fix:
    if forms.array_bytes >= DOMINANT_SHARE * forms.size_bytes > 0:
        through = "they lie in shared memory, NumPy's arrays are pickled through a pipe"
        return Fix(text=f"{words.advise(Remedy.COLLATED_TENSORS)}: {through}")
    if forms.tensors >= TENSORS:
        return Fix(text=f"{words.advise(Remedy.PACKED_BATCH)}, and split it after receipt")
    return Fix(text="send fewer bytes: 8-bit values, cropped before the queue, and convert them after receipt")


def _explained_ns(forms: Forms) -> float:
    """What receiving a batch takes for what it is made of."""
    return forms.tensors * TENSOR_NS + forms.size_bytes * BYTE_NS


def _counterfactual(received: Floats, forms: Forms, beside: float) -> Counterfactual:
    explained = _explained_ns(forms)
    removed = np.minimum(np.maximum(received - RECEIVE_NS, 0.0), explained)
    return Counterfactual(
        assumes="a batch were one or two tensors of moderate size, received in 1 ms",
        expected=Case(removed_ns=removed, concurrent_ns=beside),
        pessimistic=Case(removed_ns=removed / 2, concurrent_ns=beside),
        optimistic=Case(removed_ns=np.minimum(np.maximum(received - RECEIVE_LOW_NS, 0.0), explained), concurrent_ns=beside),
    )


RULE = Rule(name=NAME, stages=("preprocess",), topics=("compute", "input", "ledger", "machine", "python", "steps", "training"), judge=judge)
