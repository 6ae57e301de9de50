"""The step does operations one by one, outside of what is compiled.

What it sees:
    A device that works while the host goes on is asked with every stack of the training thread whether it has anything to do. The thread
    stands beneath a line of the user's in single operations of the framework (JAX beside its jitted functions, optax' among them), and
    the device has nothing to do, for at least 3 % of the steps' time, the least that a finding may claim. What brings batches to the
    device is none, nor what the loop does beside its step: metrics and logs are a callback's.
Why it costs:
    Each operation is looked up, checked and handed over by itself, in some 10 to 30 us, whatever it computes: an optimizer does some twenty
    for each array of parameters. In a function that is jitted all of them are one call, and their kernels are fused.
How the gain is predicted:
    r is 95 % of that time (80 % of its lower bound at worst: a call of a jitted function takes its arguments apart too; at best all of its
    upper bound), and half of what the device did meanwhile (at worst none, for it may still have worked on what is jitted; at best all of
    it): updates of 8 million parameters took a half (plain descent) to a seventh (AdamW behind clipping) as long where they were jitted,
    of 10 arrays of 1000 a quarter to a fiftieth (jax 0.10.2, optax 0.2.8, two cores). B is what the loader's workers need per step.
When it is wrong:
    The share is that of stacks, some twenty a second: in short recordings its bounds are wide. Very small operations are computed within
    the call, while the device is called idle. What a compiler is not given, since Python must decide between two operations, cannot be
    jitted as it is.
What to try:
    jax.jit around the whole step, with the optimizer's update in it.
"""

from __future__ import annotations

import numpy as np

from slowstep.analyses.ledger.by_operation import ByOperation
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.functions import shown
from slowstep.analyses.steps.cell_code import TOP_LEVEL
from slowstep.diagnosis.evidence.trainer_side import concurrent_producers_ns
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import UPDATES
from slowstep.units import format_share

NAME = "operations-one-by-one"
# What is left of handing them over, as of python-between-operations.
LEFT, LEFT_PESSIMISTIC = 0.05, 0.20
# Of the device's own work on them, by fusing their kernels: the least that was measured, see above.
FUSED = 0.5


def judge(m: Measurements) -> Answer:
    """Whether single operations hold the step while the device idles."""
    found = m.ledger.by_operation
    if found is None or found.share < CLAIM:
        return None
    counterfactual = _compiled(m, found)
    frame = found.frame
    where = f"{shown(frame.file, m.trainer.facts.script)}:{frame.line}"
    named = where if TOP_LEVEL.fullmatch(frame.function) else f"{frame.function} ({where})"
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=f"{named} does operations one by one, outside of what is compiled: "
        f"the device waits for them {format_share(found.share)} of the time",
        share=found.share,
        share_low=found.low,
        share_high=found.high,
        claims=(UPDATES,),
        evidence=(
            Evidence(name="device idle in single operations", value=found.share, unit="share of window", threshold=CLAIM),
            Evidence(name="stack samples of it", value=found.idled, unit="samples", where=f"of {found.of} in steps"),
            Evidence(name="most of them beneath", value=frame.function, unit="", where=f"{where}, {found.most} samples"),
            Evidence(name="device busy in single operations", value=found.worked, unit="samples"),
            saved_by(m, counterfactual),
        ),
        gain=predict(m, counterfactual),
        fixes=(Fix(text=m.training.words.advise(Remedy.FUSE_STEP)), Fix(text=m.training.words.advise(Remedy.FUSE_ELEMENTWISE))),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _compiled(m: Measurements, found: ByOperation) -> Counterfactual:
    beside = concurrent_producers_ns(m)
    updates = m.ledger.of_parts(UPDATES)
    whole = m.step_ns.sum() / max(float(updates.sum()), 1.0)

    def case(share: float) -> Case:
        return Case(removed_ns=np.minimum(updates * min(share * whole, 1.0), m.step_ns), concurrent_ns=beside)

    return Counterfactual(
        assumes="single operations were handed over in one call of a compiled function",
        expected=case(found.share * (1 - LEFT) + FUSED * found.worked / found.of),
        pessimistic=case(found.low * (1 - LEFT_PESSIMISTIC)),
        optimistic=case(found.high + found.worked / found.of),
    )


RULE = Rule(
    name=NAME,
    stages=("compute",),
    topics=("ledger", "steps", "trainer", "training"),
    where_known=("compute", "input", "machine", "over_time"),
    judge=judge,
)
