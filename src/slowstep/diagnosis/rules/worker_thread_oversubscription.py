"""Each worker computes on several threads, and all of them together are more than the cores.

What it sees:
    The training waits for input, or for a core that its workers took, at least 5 % of the window, and producers are blocked on anything
    else for less than half of their time; beside the thread that makes a batch, a quarter of a thread or more is busy in each worker;
    workers times busy threads, and the training thread, are more than the cores; and a fifth or more of the waits for batches is queueing
    for a core or waiting for those threads.
Why it costs:
    Threads that share a core take turns. A parallel operation ends with its slowest thread, and the others spin or sleep until then: the
    CPU time of the helpers is spent, and the batch is made no sooner.
How the gain is predicted:
    r is the wait for batches and, where its workers took them, for cores; B is the CPU time of training and workers divided by the cores,
    less what helpers waste: all of their CPU time is expected to be spinning, half of it at worse, and half of the producing threads' time
    as well at better. Measured with two processes of two threads on two busy cores: OpenBLAS took 4 to 50 times the CPU time of one thread
    for the same products, PyTorch 27 to 40 times for the same operations, half of it on each thread.
When it is wrong:
    Helpers that do useful work on idle cores; a background thread that is no part of making batches (a prefetcher, a logger).
What to try:
    One thread per worker: worker_init_fn with cv2.setNumThreads(0), torch.set_num_threads(1), or OMP_NUM_THREADS=1,
    OPENBLAS_NUM_THREADS=1, RAYON_NUM_THREADS=1 in the environment; then more workers.
"""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.producers import CORE, LOCK
from slowstep.analyses.steps import Floats
from slowstep.diagnosis.core_demand import core_bound_case, core_demand
from slowstep.diagnosis.gain import Case, Counterfactual, predict, share_interval
from slowstep.diagnosis.input_side import WAIT_SHARE, Side, claims, find_side, removable_waits
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix
from slowstep.units import format_count

NAME = "worker-thread-oversubscription"
# Threads that help now and then (a reader, the queue's feeder, which takes some percent) are no pool.
HELPERS = 0.25
# Of the waits: less of queueing and waiting than this is what any busy machine shows.
QUEUEING = 0.20
WASTED, WASTED_AT_WORSE = 1.0, 0.5
OWN_WASTED_AT_BETTER = 0.5


def judge(m: Measurements) -> Answer:
    """Whether workers' threads are in each other's way."""
    side, helpers = find_side(m), m.input.helpers
    if m.loader is None or not m.loader.num_workers or isinstance(side, str) or helpers is None:
        return None
    threads = m.loader.num_workers * (1 + helpers) + 1
    cores = core_demand(m, side)
    removed = side.removable_ns + cores.lost_ns
    share, low, high = share_interval(m, removed)
    queueing = float(removable_waits(m, CORE, LOCK).sum() / max(removable_waits(m).sum(), 1.0))
    if helpers < HELPERS or threads <= side.cores or share < WAIT_SHARE or queueing < QUEUEING or (m.demand.blocked_share or 0.0) > 0.5:
        return None
    counterfactual = _counterfactual(side, removed, m.input.helpers_share or 0.0, m.loader.num_workers)
    evidence = (
        Evidence(name="busy threads per worker", value=1 + helpers, unit="threads", threshold=1 + HELPERS),
        Evidence(name="busy threads in all", value=threads, unit="threads", threshold=side.cores),
        Evidence(name="queueing and waiting for threads", value=queueing, unit="share of the waits", threshold=QUEUEING),
        Evidence(name="waiting for batches and cores", value=share, unit="share of window", threshold=WAIT_SHARE),
        Evidence(name="removed per step", value=float(counterfactual.expected.removed_ns.mean()) / 1e6, unit="ms"),
    )
    finding = Finding(
        rule=NAME,
        stage="preprocess",
        title=f"{format_count(m.loader.num_workers, 'worker')}, each with {1 + helpers:.1f} busy threads, "
        f"for {format_count(round(side.cores), 'core')}",
        share=share,
        share_low=low,
        share_high=high,
        claims=(*claims(m), *cores.claims),
        evidence=evidence,
        gain=predict(m, counterfactual),
        fixes=(
            Fix(text="let each worker use one thread: OMP_NUM_THREADS=1, cv2.setNumThreads(0) in worker_init_fn"),
            Fix(text="fewer workers, where a thread pool inside them is wanted"),
        ),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _counterfactual(side: Side, removed: Floats, helpers_share: float, workers: int) -> Counterfactual:
    helping_ns = min(helpers_share * side.wall_ns, side.cpu_ns)

    def case(wasted: float, own_wasted: float = 0.0) -> Case:
        cpu_ns = (side.cpu_ns - helping_ns) * (1 - own_wasted) + (1 - wasted) * helping_ns
        return core_bound_case(side, removed, cpu_ns, workers)

    return Counterfactual(
        assumes="what the helping threads use is spinning: one thread per worker does the work in its own time",
        expected=case(WASTED), worse=case(WASTED_AT_WORSE), better=case(WASTED, OWN_WASTED_AT_BETTER),
    )  # fmt: skip


RULE = Rule(name=NAME, stages=("preprocess",), judge=judge)
