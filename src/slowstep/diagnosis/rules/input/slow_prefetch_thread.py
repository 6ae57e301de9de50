"""The script's own threads make batches, and the loop waits for them.

What it sees:
    A loop without a loader waits for another Python thread before its forward for at least 5 % of the window; and a thread that hands
    something over (its function names `put`, `notify` or `set`, or a pool of concurrent.futures or multiprocessing has called it) computes
    for at least nine tenths of its time, by stacks.
Why it costs:
    Threads of one process share the GIL: what they do in Python is done one after the other, and takes its turns with the
    training. One thread makes one batch at a time.
How the gain is predicted:
    r is the wait for the threads, less the receipt of a batch from a worker (1 ms assumed, 0.3 to 2 ms). B is the time in which the threads
    make batches, divided by the workers proposed, not below the CPU time of training, threads and receipt divided by the cores that the
    process may use. At worst a worker slows the training by an eighth, and workers that bind take a tenth longer when several run.
    What the training gains by threads that no longer take the lock from it is left out.
When it is wrong:
    A thread that hands over something else, and computes all the time, next to one that makes batches and mostly waits. Threads that live
    less than a second, or use less than a tenth of a core, are not seen. What cannot be pickled or forked needs work first. Threads that
    hardly ever let go of the lock hold up the training itself, and the batches are ready: that is gil-contention.
What to try:
    torch.utils.data.DataLoader with num_workers, which are processes: what the threads run goes into the data set's __getitem__.
"""

from __future__ import annotations

from slowstep.analyses.input.prefetch_threads import PrefetchThreads
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.evidence.input.by_workers import made_by_workers
from slowstep.diagnosis.evidence.input.input_side import WAIT_SHARE, InputSide, crowded, side_of_threads, workers_needed
from slowstep.diagnosis.evidence.input.loop_side import workers_unknown
from slowstep.diagnosis.evidence.spread import stack_spread
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


def judge(m: Measurements) -> Answer:
    """Whether such threads cannot keep up, and what processes in their place would gain."""
    if m.input.loop_input is None:
        return None
    parts = m.ledger.parts_of("preprocess", PartKind.THREAD_WAIT)
    if not parts:
        return None
    waited = m.ledger.of_parts(*parts)
    share, low, high = share_interval(m, waited)
    if share < WAIT_SHARE:
        return None
    threads, largest = m.input.prefetch_threads, max(parts, key=m.ledger.total_of)
    if threads is None:
        return NotJudged(rule=NAME, reason=NO_COMPUTING_THREAD(workers=workers_unknown(largest)))
    if threads.busy_share < BUSY_SHARE:
        thread = part_in_words(threads.function)
        reason = THREAD_WAITS(workers=workers_unknown(largest), thread=thread, share=1 - threads.busy_share)
        return NotJudged(rule=NAME, reason=reason)
    side = side_of_threads(m, waited, threads)
    if isinstance(side, Reason):
        return NotJudged(rule=NAME, reason=side)
    return _judged(m, threads, side, parts, waited, (share, low, high))


def _judged(
    m: Measurements, threads: PrefetchThreads, side: InputSide, parts: tuple[Part, ...], waited: Floats, share: tuple[float, float, float]
) -> Judged:
    stacks = sum(m.ledger.gap_stacks.get(part, 0) for part in parts)
    of_stacks = max(sum(m.ledger.gap_stacks.values()), 1)
    spread = stack_spread(stacks, of_stacks)
    workers, taken = workers_needed(side, 0), crowded(m, side, freed=threads.cpu_ns / float(m.step_ns.mean()))
    counterfactual = made_by_workers(side, workers, spread)
    who = "a background thread makes" if threads.threads == 1 else f"{threads.threads} background threads make"
    function = part_name(threads.function)
    by_processes = m.training.words.write({Remedy.WORKERS: workers}) or "worker processes"
    finding = Finding(
        rule=NAME,
        stage="preprocess",
        title=f"{who} the batches, in {part_in_words(threads.function)}, and cannot keep up",
        share=share[0],
        share_low=share[1] * spread.low,
        share_high=min(share[2] * spread.high, 1.0),
        claims=parts,
        evidence=_evidence(m, threads, share[0], counterfactual),
        gain=predict(m, counterfactual) if taken is None else unknown_gain(taken),
        fixes=(
            Fix(text=f"put what {function} does for a sample into a Dataset, read by processes: {by_processes}"),
            *((Fix(text=f"do less in {threads.inner[0]}, or use a faster library for it"),) if threads.inner else ()),
        ),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual if taken is None else None)


def _evidence(m: Measurements, threads: PrefetchThreads, share: float, counterfactual: Counterfactual) -> tuple[Evidence, ...]:
    return (
        Evidence(name="made in a thread", value=part_called(threads.function), unit="", where=part_place(threads.function)),
        Evidence(name="waiting for it", value=share, unit="share of window", threshold=WAIT_SHARE),
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


RULE = Rule(name=NAME, stages=("preprocess",), topics=("compute", "input", "ledger", "machine", "steps", "training"), judge=judge)
