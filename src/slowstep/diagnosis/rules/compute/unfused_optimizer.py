"""The optimizer passes over its parameters several times a step.

On a processor one pass would do.

What it sees:
    Adam, AdamW or Adagrad that is not fused (recorded at its first call), on a processor, takes at least 10 % of the time, with its share
    of what the step waits for a core. It calls no closure: inside of one the script's own code may run.
Why it costs:
    Each operation of the update (averages, their square roots, the step itself) goes over a parameter once more, and is dispatched once
    more: for models of many small parameters that takes longer than their backward.
How the gain is predicted:
    r is 72 % of the optimizer's time, with its share of what the step waits for a core: 28 % of it is left where one operation does all
    (56 % at worst, 17 % at best). B is what the loader's workers need for a batch.
When it is wrong:
    How much is left goes with the sizes of the parameters and with the optimizer: it was measured of 0.1 to 30 million elements in 1 to
    1000 tensors. Of SGD it is 0.5 to 0.8 with momentum, and all without: of other optimizers nothing is claimed. An optimizer that takes
    long because its averages became nearly zero (denormal, see growing-step-time) may gain less.
    Where it may be the lesser part of a fixed cost that could not be judged, it does not lead: a larger batch may gain more.
What to try:
    fused=True, which the lever fused tries; a larger batch where most of a step is its fixed cost, so that the optimizer runs more seldom.
"""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.after_update import waits_in_it
from slowstep.diagnosis.evidence.compute.optimizer_side import (
    flush_denormals,
    fuse,
    fused_counterfactual,
    surely_takes_most_of_fixed,
    takes_most_of_fixed,
    unfused,
)
from slowstep.diagnosis.evidence.trainer_side import with_core_delay
from slowstep.diagnosis.gain import predict, saved_by, share_interval
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding
from slowstep.parts import OPTIMIZER
from slowstep.units import format_share

NAME = "unfused-optimizer"
# Of the time: from here on fusing gains some 8 %, and less where it is the least that was measured.
WORTH = 0.10


def judge(m: Measurements) -> Answer:
    """Whether an optimizer that could be fused takes its part of the step."""
    kind = unfused(m)
    if kind is None:
        return None
    taken_ns = with_core_delay(m, OPTIMIZER)
    share, low, high = share_interval(m, taken_ns)
    if share < WORTH:
        return None
    counterfactual = fused_counterfactual(m, kind)
    flushed, is_most = flush_denormals(m), takes_most_of_fixed(m)
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=f"{kind} takes {format_share(share)} of the time{waits_in_it(m, share, OPTIMIZER)}, in several passes over its parameters: "
        "it is not fused",
        opens_with_name=True,
        share=share,
        share_low=low,
        share_high=high,
        claims=(OPTIMIZER,),
        evidence=(
            Evidence(name="optimizer", value=share, unit="share of window", threshold=WORTH, where=kind),
            Evidence(name="it takes", value=float(taken_ns.mean()) / 1e6, unit="ms per step"),
            saved_by(m, counterfactual),
        ),
        gain=predict(m, counterfactual),
        fixes=(fuse(m.training.words, kind, share), *(() if flushed is None else (flushed,))),
        names_cause=is_most,
        # It is a part of what a step takes however few samples it holds: another batch size may gain more than another optimizer.
        may_be_lesser_than=None if surely_takes_most_of_fixed(m) else "small-batch",
    )
    return Judged(finding=finding, counterfactual=counterfactual)


RULE = Rule(
    name=NAME,
    stages=("compute",),
    topics=("compute", "input", "ledger", "machine", "over_time", "steps", "trainer", "training"),
    judge=judge,
)
