"""The workers compute on more threads than there are cores.

What it sees:
    The training waits for input, or for a core that its workers took, at least 5 % of the window, and the workers are blocked on anything
    else for less than half of their time; besides the thread that makes a batch, a quarter of a thread or more is busy in each worker;
    workers times busy threads, and the training thread, are more than the cores; and a fifth or more of the waits for batches is queueing
    for a core or waiting for those threads.
Why it costs:
    Threads that share a core take turns. A parallel operation ends with its slowest thread, and the others spin or sleep until then: the
    CPU time of the helpers is spent, and the batch is made no sooner.
How the gain is predicted:
    r is the wait for batches and, where its workers took them, for cores; B is the CPU time of training and workers divided by the cores,
    less what helpers waste: all of their CPU time is expected to be spinning, half of it at worst, and half of the producing
    threads' time as well at best. Measured with two processes of two threads on two busy cores: OpenBLAS took 4 to 50 times the CPU
    time of one thread for the same products, PyTorch 27 to 40 times for the same operations, half of it on each thread. Where it is
    expected to remove most of what is waited, a function that takes its time in those threads (slow-transform) is a part of it.
When it is wrong:
    Helpers that do useful work on idle cores; a background thread that is no part of making batches (a prefetcher, a logger).
What to try:
    One thread per worker: worker_init_fn with cv2.setNumThreads(0), torch.set_num_threads(1), or OMP_NUM_THREADS=1,
    OPENBLAS_NUM_THREADS=1, RAYON_NUM_THREADS=1 in the environment; then more workers.
"""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.input.input_causes import most_of_a_sample
from slowstep.diagnosis.evidence.input.input_side import WAIT_SHARE
from slowstep.diagnosis.evidence.input.worker_threads import HELPERS, QUEUEING, find_oversubscription
from slowstep.diagnosis.gain import predict, saved_by, share_interval
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix
from slowstep.frameworks._remedies import Remedy
from slowstep.units import format_count

NAME = "worker-thread-oversubscription"


def judge(m: Measurements) -> Answer:
    """Whether workers' threads are in each other's way."""
    found = find_oversubscription(m)
    if found is None:
        return None
    share, low, high = share_interval(m, found.removed_ns)
    evidence = (
        Evidence(name="busy threads per worker", value=1 + found.helpers, unit="threads", threshold=1 + HELPERS),
        Evidence(name="busy threads in all", value=found.threads, unit="threads", threshold=found.cores),
        Evidence(name="queueing and waiting for threads", value=found.queueing, unit="share of the waits", threshold=QUEUEING),
        Evidence(name="waiting for batches and cores", value=share, unit="share of window", threshold=WAIT_SHARE),
        *most_of_a_sample(m),
        saved_by(m, found.counterfactual),
    )
    finding = Finding(
        rule=NAME,
        stage="preprocess",
        title=f"{format_count(found.workers, 'worker')}, each with {1 + found.helpers:.1f} busy threads, "
        f"for {format_count(round(found.cores), 'core')}",
        share=share,
        share_low=low,
        share_high=high,
        claims=found.claims,
        evidence=evidence,
        gain=predict(m, found.counterfactual),
        fixes=(
            Fix(
                text=f"let each worker use one thread: {m.training.words.advise(Remedy.THREAD_PER_WORKER)}; "
                "OMP_NUM_THREADS=1 in the environment for the others"
            ),
            Fix(text="fewer workers, where a thread pool inside them is wanted"),
        ),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=found.counterfactual)


RULE = Rule(
    name=NAME, stages=("preprocess",), topics=("compute", "input", "ledger", "machine", "steps", "trainer", "training"), judge=judge
)
