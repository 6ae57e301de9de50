"""Each worker computes on several threads, and all of them together are more than the cores.

What it sees:
    The training waits for input at least 5 % of the window; beside the thread that makes a batch, a quarter of a thread or more is busy in
    each worker on average; workers times busy threads, and the training thread, are more than the cores; and the making of batches queues
    for a core or waits for those threads at least a fifth of its time.
Why it costs:
    Threads that share a core take turns. A parallel operation ends with its slowest thread, and the others spin or sleep until then: the
    CPU time of the helpers is spent, and the batch is made no sooner.
How the gain is predicted:
    r is the wait for batches; B is the CPU time of training and workers divided by the cores, less what helpers waste: half of their CPU
    time is expected to be spinning, none at worse (then workers gain nothing but their order), all at better.
When it is wrong:
    Helpers that do useful work on idle cores; a background thread that is no part of making batches (a prefetcher, a logger).
What to try:
    One thread per worker: worker_init_fn with cv2.setNumThreads(0), torch.set_num_threads(1), or OMP_NUM_THREADS=1,
    OPENBLAS_NUM_THREADS=1, RAYON_NUM_THREADS=1 in the environment; then more workers.
"""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.producers import CORE, LOCK
from slowstep.diagnosis.gain import Case, Counterfactual, predict, share_interval
from slowstep.diagnosis.input_side import WAIT_SHARE, Side, claims, find_side, removable_waits
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix

NAME = "worker-thread-oversubscription"
# Threads that help now and then (a reader, the queue's feeder, which takes some percent) are no pool.
HELPERS = 0.25
# Of the waits: less of queueing and waiting than this is what any busy machine shows.
QUEUEING = 0.20
WASTED, WASTED_AT_BETTER = 0.5, 1.0


def judge(m: Measurements) -> Answer:
    """Whether workers' threads are in each other's way."""
    side, helpers = find_side(m), m.input.helper_cores
    if m.loader is None or not m.loader.num_workers or isinstance(side, str) or helpers is None or m.load.busy:
        return None
    threads = m.loader.num_workers * (1 + helpers) + 1
    share, low, high = share_interval(m, side.removable_ns)
    queueing = float(removable_waits(m, CORE, LOCK).sum() / max(removable_waits(m).sum(), 1.0))
    if helpers < HELPERS or threads <= side.cores or share < WAIT_SHARE or queueing < QUEUEING:
        return None
    counterfactual = _counterfactual(side, helpers, m.loader.num_workers)
    evidence = (
        Evidence(name="busy threads per worker", value=1 + helpers, unit="threads", threshold=1 + HELPERS),
        Evidence(name="busy threads in all", value=threads, unit="threads", threshold=side.cores),
        Evidence(name="queueing and waiting for threads", value=queueing, unit="share of the waits", threshold=QUEUEING),
        Evidence(name="waiting for batches", value=share, unit="share of window", threshold=WAIT_SHARE),
        Evidence(name="removed per step", value=float(counterfactual.expected.removed_ns.mean()) / 1e6, unit="ms"),
    )
    finding = Finding(
        rule=NAME,
        stage="preprocess",
        title=f"{m.loader.num_workers} worker(s) with {1 + helpers:.1f} busy threads each compete for {side.cores:.0f} cores",
        share=share,
        share_low=low,
        share_high=high,
        claims=claims(m),
        evidence=evidence,
        gain=predict(m, counterfactual),
        fixes=(
            Fix(text="let each worker use one thread: OMP_NUM_THREADS=1, cv2.setNumThreads(0) in worker_init_fn"),
            Fix(text="fewer workers, where a thread pool inside them is wanted"),
        ),
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _counterfactual(side: Side, helpers: float, workers: int) -> Counterfactual:
    """CPU time of helpers as a part of all that workers use, by the threads that were busy."""
    helping_ns = side.cpu_ns * helpers / (1 + helpers)

    def case(wasted: float) -> Case:
        cpu_ns = side.cpu_ns - wasted * helping_ns
        return Case(removed_ns=side.removable_ns, beside_ns=max((side.trainer_cpu_ns + cpu_ns) / side.cores, cpu_ns / workers))

    return Counterfactual(
        assumes="half of what the helping threads use is spinning, and one thread per worker does the rest",
        expected=case(WASTED), worse=case(0.0), better=case(WASTED_AT_BETTER),
    )  # fmt: skip


RULE = Rule(name=NAME, stages=("preprocess",), judge=judge)
