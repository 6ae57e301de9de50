"""The input pipeline is started again in every short epoch.

What it sees:
    In at least three steps of the window a framework without loaders began a pass over its input (a tf.data iterator, in Keras' fit), and
    making these iterators holds at least 3 % of the window.
Why it costs:
    For each iterator TensorFlow copies and optimises the pipeline's graph and starts its threads; buffers are empty again, and meanwhile
    nothing is trained. Keras makes one or two iterators per epoch, however short the epoch.
How the gain is predicted:
    r is what making the iterators takes. At worst a tenth of it stays; at best the waits for batches go with it, which are waits for the
    first ones of each iterator then. B is what the pipeline needs per step.
When it is wrong:
    An epoch that others read (callbacks at its end, learning rates by epoch, validation) is then longer, too.
What to try:
    One pass that lasts: in Keras fit(data.repeat(), steps_per_epoch=N), which keeps its iterator from epoch to epoch.
"""

from __future__ import annotations

import numpy as np

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.input.input_passes import steps_of_pass
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE, concurrent_producers_ns
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import PartKind
from slowstep.units import format_share

NAME = "pipeline-restart"
# One start, or two, are no habit, as of workers (worker_restart.py).
FEWEST = 3
# Of making an iterator, where one is still made now and then. Assumed.
LEFT_PESSIMISTIC = 0.1


def judge(m: Measurements) -> Answer:
    """Whether beginning passes over the input costs the training time. Starts of loaders are counted, and judged by other rules."""
    started_ns = m.ledger.of("preprocess", PartKind.LOADER_START)
    begun = int(np.count_nonzero(started_ns))
    share, low, high = share_interval(m, started_ns)
    if m.over_time.restarts.count or begun < FEWEST or share < CLAIM:
        return None
    beside = concurrent_producers_ns(m)
    counterfactual = Counterfactual(
        assumes="one pass over the input lasted for the whole training",
        expected=Case(removed_ns=started_ns, concurrent_ns=beside),
        pessimistic=Case(removed_ns=(1 - LEFT_PESSIMISTIC) * started_ns, concurrent_ns=PESSIMISTIC_BESIDE * beside),
        optimistic=Case(removed_ns=started_ns + m.ledger.of("preprocess", PartKind.INPUT_WAIT), concurrent_ns=beside),
    )
    finding = Finding(
        rule=NAME,
        stage="preprocess",
        title=f"the input pipeline is started anew every {_steps(steps_of_pass(m) or 1)}: {format_share(share)} of the time",
        share=share,
        share_low=low,
        share_high=high,
        claims=m.ledger.parts_of("preprocess", PartKind.LOADER_START),
        evidence=(
            Evidence(name="steps in which an iterator was made", value=begun, unit="steps", threshold=FEWEST),
            Evidence(name="making them", value=share, unit="share of window", threshold=CLAIM),
            Evidence(name="making them, each", value=float(started_ns.sum()) / begun / 1e6, unit="ms"),
            saved_by(m, counterfactual),
        ),
        gain=predict(m, counterfactual),
        fixes=(Fix(text=m.training.words.advise(Remedy.ONE_PASS)),),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _steps(each: int) -> str:
    return "step" if each <= 1 else f"{each} steps"


RULE = Rule(
    name=NAME, stages=("preprocess",), topics=("compute", "input", "ledger", "machine", "over_time", "steps", "training"), judge=judge
)
