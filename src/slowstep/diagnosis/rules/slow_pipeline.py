"""The framework's own input pipeline does not keep up with the training.

What it sees:
    A framework whose calls wait for their input counts how long (tf.data below Keras' fit), and what is more than the 0.3 ms that handing
    over a batch takes that is ready is at least 5 % of the window; and nothing says that it makes each batch only when it is to train on
    it, which serial-loader judges. Frameworks that count nothing, and those whose calls return before their work is done (JAX, TensorFlow
    on an accelerator), are not judged by it: the device may have work left from before while the host waits.
Why it costs:
    What trains stands still until the pipeline has made the next batch.
How the gain is predicted:
    r is that. B is what all processes of the training compute, divided by 0.85 of the cores that they may use: a pipeline that
    is always behind computes or waits all the time, and with twice as many of its threads or processes it takes half of today's step at
    worst.
When it is wrong:
    What was waited for at the start of each epoch, while buffers fill, counts as well. Where the pipeline waits for a disk or a server
    that is at its limit, more threads wait longer. How the waits are divided among steps is an estimate.
What to try:
    Stages that are made in parallel, and batches that are made ahead; less work for each sample, or once and stored (cache).
"""

from __future__ import annotations

import numpy as np

from slowstep.analyses.batches.counted_work import CountedWork
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.input_side import ATTAINED, RECEIVE_LOW_NS, WAIT_SHARE, claims
from slowstep.diagnosis.gain import Case, Counterfactual, predict, share_interval
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import PartKind

NAME = "slow-pipeline"
# So many times as many threads or processes are what is predicted at worst.
MORE = 2
FIXES = (
    Fix(text="do what does not change from epoch to epoch once, and store it: cache after the last such stage"),
    Fix(text="make less of each sample, or many at once: arrays of a whole batch in place of loops over samples"),
)


def judge(m: Measurements) -> Answer:
    """Whether the training waits for a pipeline that nothing else is known of, and what it would gain without."""
    counted = m.input.counted
    if counted is None or not counted.waits or counted.is_asynchronous or counted.num_workers == 0:
        return None
    waited = np.maximum(m.ledger.of("preprocess", PartKind.INPUT_WAIT) - counted.batches * RECEIVE_LOW_NS, 0.0)
    share, low, high = share_interval(m, waited)
    if share < WAIT_SHARE:
        return None
    step_ns = float(m.step_ns.mean())
    needed_ns = _computed_ns(m, step_ns)
    worse = Case(removed_ns=waited, concurrent_ns=max(needed_ns, step_ns / MORE))
    counterfactual = Counterfactual(
        assumes="its pipeline had each batch ready when it is asked for",
        expected=Case(removed_ns=waited, concurrent_ns=needed_ns),
        pessimistic=worse,
        optimistic=Case(removed_ns=waited),
    )
    finding = Finding(
        rule=NAME,
        stage="preprocess",
        title=f"{m.training.words.title} waits for its input pipeline, which does not keep up with the training",
        share=share,
        share_low=low,
        share_high=high,
        claims=claims(m, PartKind.INPUT_WAIT),
        evidence=_evidence(m, counted, share, float(waited.mean())),
        gain=predict(m, counterfactual),
        fixes=(_in_parallel(m), *FIXES),
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _computed_ns(m: Measurements, step_ns: float) -> float:
    """What all processes of the training need of the cores; 0 where that is not known."""
    used, cores = m.machine.load.tree_cores, m.machine.cores
    return 0.0 if used is None or not cores else min(used / (ATTAINED * cores), 1.0) * step_ns


def _evidence(m: Measurements, counted: CountedWork, share: float, waited_ns: float) -> tuple[Evidence, ...]:
    return (
        Evidence(name="waiting for input", value=share, unit="share of window", threshold=WAIT_SHARE, where=counted.data_set),
        Evidence(name="of each step", value=waited_ns / 1e6, unit="ms"),
        Evidence(name="batches of a step", value=counted.batches, unit=""),
        Evidence(name="cores used", value=m.machine.load.tree_cores, unit="cores", threshold=m.machine.cores),
    )


def _in_parallel(m: Measurements) -> Fix:
    words = m.training.words.write({Remedy.WORKERS: 4, Remedy.PREFETCH: ...})
    return Fix(text=f"make batches in parallel, ahead of the training{f': {words}' if words else ''}")


RULE = Rule(name=NAME, stages=("preprocess",), topics=("input", "ledger", "machine", "steps", "training"), judge=judge)
