"""The script's own threads make batches, and keep steps waiting.

What it sees:
    One of two, of a thread that hands something over (its function names `put`, `notify` or `set`, or a pool of concurrent.futures or
    multiprocessing has called it). A loop without a loader waits for another Python thread before its forward for at least 5 % of the
    window, and the thread computes for at least nine tenths of its time, by stacks. Or the training is seen to take its input from a queue
    or such a pool, by stacks or timed calls, and its steps wait for the GIL while the thread computes, as gil-contention sees it.
Why it costs:
    Threads of one process share the GIL: what they do in Python is done one after the other, and takes its turns with the
    training. One thread makes one batch at a time.
How the gain is predicted:
    r is the wait for the threads and what the steps lose to them (as gil-contention predicts it), less the receipt of a batch from a worker
    (1 ms assumed, 0.3 to 2 ms). B is the time in which the threads make batches (their CPU time where steps lose time to them), divided
    by the workers proposed, not below the CPU time of training, threads and receipt divided by the cores that the process may use. At worst
    a worker slows the training by an eighth, and workers that bind take a tenth longer while others run. At best, where steps lose time
    to them, making batches costs nothing, and the training is an eighth faster without it; where workers then gain less than a tenth, a
    thread is expected that takes a twentieth of its time, and workers are the worst case.
When it is wrong:
    A thread that hands over something else, and computes all the time, while another one makes batches and mostly waits. Threads that live
    less than a second, or use less than a tenth of a core, are not seen. What cannot be pickled or forked needs work first. A plain list
    that the loop looks into again and again shows nobody that the thread makes input: that is gil-contention.
What to try:
    torch.utils.data.DataLoader with num_workers, which are processes: what the threads run goes into the data set's __getitem__. Or whole
    arrays at a time: NumPy and PyTorch let go of the GIL while they compute.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slowstep.analyses.input.prefetch_threads import PrefetchThreads
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.evidence.held_up import (
    HeldUp,
    at_best,
    at_worst,
    by_less_work,
    is_gil_held,
    is_worth_a_process,
    lost_to_threads,
    makers_hold_up,
)
from slowstep.diagnosis.evidence.input.by_workers import made_by_workers
from slowstep.diagnosis.evidence.input.input_side import (
    RECEIVE_HIGH_NS,
    WAIT_SHARE,
    InputSide,
    concurrent_ns,
    crowded,
    side_of_threads,
    workers_needed,
)
from slowstep.diagnosis.evidence.input.loop_side import workers_unknown
from slowstep.diagnosis.evidence.spread import EXACT, TimeSpread, stack_spread
from slowstep.diagnosis.gain import Counterfactual, predict, saved_by, share_interval, unknown_gain
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.part_words import part_called, part_in_words, part_name, part_place
from slowstep.parts import Part, PartKind
from slowstep.reasons import Reason, Wording
from slowstep.units import format_share

NAME = "slow-prefetch-thread"
# Threads that wait for a tenth of their time keep up, or wait for something else than the GIL.
BUSY_SHARE = 0.9

NO_COMPUTING_THREAD = Wording("no-computing-thread", "{workers}: no thread that hands something over was seen to compute")
THREAD_WAITS = Wording("thread-waits", "{workers}: {thread}, in a thread, waits itself for {share:share} of its time")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Cost:
    """What the threads cost: waits for them in these `parts` (ns per step), none where they keep up, and what steps lose to them."""

    parts: tuple[Part, ...]
    waited_ns: Floats
    held: HeldUp | None

    @property
    def claims(self) -> tuple[Part, ...]:
        """The ledger parts of both."""
        return self.parts if self.held is None else (*self.parts, *self.held.claims)

    @property
    def ns(self) -> Floats:
        """Both, ns per step."""
        return self.waited_ns if self.held is None else self.waited_ns + self.held.lost_ns


def judge(m: Measurements) -> Answer:
    """Whether such threads cannot keep up or hold up the steps, and what processes in their place would gain."""
    parts = () if m.input.loop_input is None else m.ledger.parts_of("preprocess", PartKind.THREAD_WAIT)
    waited, threads, held = m.ledger.of_parts(*parts), m.input.prefetch_threads, makers_hold_up(m)
    unknown = _why_unknown(m, parts, threads) if parts and share_interval(m, waited)[0] >= WAIT_SHARE else None
    waits = bool(parts) and unknown is None and share_interval(m, waited)[0] >= WAIT_SHARE
    if threads is None or (held is None and not waits):
        return None if unknown is None else NotJudged(rule=NAME, reason=unknown)
    cost = _Cost(parts=parts, waited_ns=waited, held=held) if waits else _Cost(parts=(), waited_ns=np.zeros_like(waited), held=held)
    side = side_of_threads(m, cost.ns, threads)
    if isinstance(side, Reason):
        return NotJudged(rule=NAME, reason=side)
    return _judged(m, threads, side, cost)


def _why_unknown(m: Measurements, parts: tuple[Part, ...], threads: PrefetchThreads | None) -> Reason | None:
    """Why threads that the loop waits for are not known to be what it waits for."""
    largest = max(parts, key=m.ledger.total_of)
    if threads is None:
        return NO_COMPUTING_THREAD(workers=workers_unknown(largest))
    if threads.busy_share < BUSY_SHARE:
        thread = part_in_words(threads.function)
        return THREAD_WAITS(workers=workers_unknown(largest), thread=thread, share=1 - threads.busy_share)
    return None


def _judged(m: Measurements, threads: PrefetchThreads, side: InputSide, cost: _Cost) -> Judged:
    spread = _spread(m, cost)
    share, low, high = share_interval(m, cost.ns)
    side = side if cost.held is None else _without_gil(side, threads, cost.held)
    workers = workers_needed(side, 0)
    taken = crowded(m, side, freed=threads.cpu_ns / float(m.step_ns.mean())) if cost.held is None else None
    by_workers = counterfactual = made_by_workers(side, workers, spread)
    if cost.held is not None:
        counterfactual = _within(m, by_workers, replace(side, wall_ns=threads.wall_ns), workers, cost, cost.held, spread)
    finding = Finding(
        rule=NAME,
        stage="preprocess",
        title=_title(m, threads, cost),
        share=share,
        share_low=low * spread.low,
        share_high=min(high * spread.high, 1.0),
        claims=cost.claims,
        evidence=_evidence(m, threads, cost, counterfactual),
        gain=predict(m, counterfactual) if taken is None else unknown_gain(taken),
        fixes=_fixes(m, threads, workers, cost, workers_first=counterfactual.expected is by_workers.expected),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual if taken is None else None)


def _spread(m: Measurements, cost: _Cost) -> TimeSpread:
    """How far off the waits may be, which stacks tell; what steps lose is known without."""
    stacks = sum(m.ledger.gap_stacks.get(part, 0) for part in cost.parts)
    waits = stack_spread(stacks, max(sum(m.ledger.gap_stacks.values()), 1)) if cost.parts else EXACT
    part = float(cost.waited_ns.sum()) / max(float(cost.ns.sum()), 1.0)
    return TimeSpread(low=1 - part * (1 - waits.low), high=1 + part * (waits.high - 1))


def _without_gil(side: InputSide, threads: PrefetchThreads, held: HeldUp) -> InputSide:
    """Of threads that no longer share the GIL with the training: what they waited for it is no making of batches."""
    return replace(
        side, wall_ns=threads.cpu_ns, trainer_cpu_ns=held.training_ns, queued_ns=np.maximum(side.queued_ns - held.queued_ns, 0.0)
    )


def _within(
    m: Measurements, expected: Counterfactual, slow: InputSide, workers: int, cost: _Cost, held: HeldUp, spread: TimeSpread
) -> Counterfactual:
    """The same with its worse and its better case: what threads waited was no waiting for the GIL, or making batches costs nothing.

    Where workers gain too little, making batches takes a twentieth of its time.
    """
    words, of_workers = expected.assumes, is_worth_a_process(m, expected.expected)
    return Counterfactual(
        assumes=f"{words}; at best making them costs nothing"
        if of_workers
        else f"making batches took a twentieth of its time; at worst {words}",
        expected=expected.expected if of_workers else by_less_work(held, more_ns=cost.waited_ns),
        pessimistic=at_worst(held, concurrent_ns(slow, workers), more_ns=spread.low * cost.waited_ns - RECEIVE_HIGH_NS),
        optimistic=at_best(m, held, more_ns=spread.high * cost.waited_ns),
    )


def _title(m: Measurements, threads: PrefetchThreads, cost: _Cost) -> str:
    who = "a background thread makes" if threads.threads == 1 else f"{threads.threads} background threads make"
    waits = "wait" if is_gil_held(m) else "may wait"
    why = "cannot keep up" if cost.parts else f"steps {waits} for the GIL meanwhile"
    return f"{who} the batches, in {part_in_words(threads.function)}, and {why}"


def _fixes(m: Measurements, threads: PrefetchThreads, workers: int, cost: _Cost, *, workers_first: bool) -> tuple[Fix, ...]:
    function = part_name(threads.function)
    by_processes = m.training.words.write({Remedy.WORKERS: workers}) or "worker processes"
    inner = threads.inner[0] if threads.inner else function
    processes = Fix(text=f"put what {function} does for a sample into a Dataset, read by processes: {by_processes}")
    if cost.held is not None:
        whole = Fix(text=f"write {inner} for whole arrays, as by NumPy, which lets go of the GIL while it computes")
        return (processes, whole) if workers_first else (whole, processes)
    return (processes, *((Fix(text=f"do less in {inner}, or use a faster library for it"),) if threads.inner else ()))


def _evidence(m: Measurements, threads: PrefetchThreads, cost: _Cost, counterfactual: Counterfactual) -> tuple[Evidence, ...]:
    waited = share_interval(m, cost.waited_ns)[0]
    return (
        Evidence(name="made in a thread", value=part_called(threads.function), unit="", where=part_place(threads.function)),
        *((Evidence(name="waiting for it", value=waited, unit="share of window", threshold=WAIT_SHARE),) if cost.parts else ()),
        *(() if cost.held is None else lost_to_threads(m, cost.held)),
        *_inner(threads),
        _busy(threads),
        Evidence(name="making batches", value=threads.wall_ns / 1e6, unit="ms per step"),
        Evidence(name="of it computing", value=threads.cpu_ns / 1e6, unit="ms per step"),
        saved_by(m, counterfactual),
    )


def _inner(threads: PrefetchThreads) -> tuple[Evidence, ...]:
    if threads.inner is None:
        return ()
    name, share = threads.inner
    return (Evidence(name="most of it in", value=name, unit="", where=format_share(share)),)


def _busy(threads: PrefetchThreads) -> Evidence:
    share, stacks = threads.busy_share, f"{threads.stacks} stacks"
    return Evidence(name="it computes", value=share, unit="share of its time", threshold=BUSY_SHARE, where=stacks)


RULE = Rule(
    name=NAME,
    stages=("preprocess",),
    topics=("compute", "input", "ledger", "machine", "python", "sharing", "steps", "training"),
    judge=judge,
)
