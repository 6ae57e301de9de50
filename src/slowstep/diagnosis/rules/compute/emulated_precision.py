"""Compute is in 16 bits, for which the processor has no instructions.

What it sees:
    At least half of the operations that multiply, in backward graphs that are looked at now and then, give float16 or bfloat16 on the
    processor, which lacks the instructions for this type (Linux lists what it has), and computing so holds at least 10 % of the window.
Why it costs:
    Each number is widened before it is computed with and narrowed afterwards, often one by one: what saves time on an accelerator, or on a
    processor that multiplies such numbers itself, takes many times as long here.
How the gain is predicted:
    r is the time of forward and backward times the share of these operations times (1 - 1/ratio). How many times as long 16 bits take was
    measured by benchmarks/half_precision.py, one core with AVX-512: float16 8 to 31, bfloat16 with its instructions turned off 1.4 to 2.4,
    and 14 of a convolution where AVX2 was all that there was. B is what the loader's workers need per step.
When it is wrong:
    Small operations cost what their dispatch costs, whatever they hold: where they take less than ten times that on average, no gain is
    predicted, and the verdict is left open. Of what is compiled, of graphs of more than
    a thousand operations, and of frameworks whose graphs nobody looks at nothing is said. Memory may be why 16 bits were chosen.
What to try:
    float32; where the processor has instructions for bfloat16, that instead of float16.
"""

from __future__ import annotations

import numpy as np

from slowstep.analyses.compute.narrow_operations import BFLOAT16, NarrowOperations
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import Floats
from slowstep.calibration import computing
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE, concurrent_producers_ns
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval, share_queued, unknown_gain
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import OPTIMIZER, PartKind
from slowstep.shares import MOSTLY
from slowstep.units import format_share

NAME = "emulated-precision"
# Of the time: what takes less is no bottleneck.
WORTH = 0.10
# Of its mean operation: ten times what dispatching one takes usually.
OPERATION_NS = 10 * computing.DISPATCH.value
ASSUMES = "float32 were as much faster as in slowstep's benchmark"
# Of the time in 16 bits over that in float32: expected, pessimistic, optimistic.
RATIOS = {kind: (of.value, *of.bounds) for kind, of in (("float16", computing.FLOAT16_EMULATED), (BFLOAT16, computing.BFLOAT16_EMULATED))}


def judge(m: Measurements) -> Answer:
    """Whether the processor has to emulate what the model computes in."""
    narrow = m.compute.narrow
    if narrow is None or narrow.is_native is not False or narrow.share < MOSTLY or m.compute.device != "cpu":
        return None
    share, low, high = share_interval(m, _taken_ns(m, narrow))
    if share < WORTH:
        return None
    # What short operations take is mostly their dispatch, which no other type shortens.
    nodes = m.trainer.facts.graph_nodes
    are_long = nodes is not None and float(_passes_ns(m).mean()) >= OPERATION_NS * nodes
    counterfactual = _counterfactual(m, narrow) if are_long else None
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=f"the model computes in {narrow.dtype}, for which this processor has no instructions, for {format_share(share)} of the time",
        share=share,
        share_low=low,
        share_high=high,
        claims=tuple(part for part in m.ledger.parts_of("compute") if part != OPTIMIZER),
        evidence=(
            Evidence(name=f"in {narrow.dtype}", value=narrow.share, unit="share of products", threshold=MOSTLY),
            Evidence(name="forward and backward in it", value=share, unit="share of window", threshold=WORTH),
            saved_by(m, counterfactual),
        ),
        gain=unknown_gain(ASSUMES) if counterfactual is None else predict(m, counterfactual),
        fixes=_fixes(m, narrow),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _passes_ns(m: Measurements) -> Floats:
    return np.asarray(m.ledger.of("compute") - m.ledger.of_parts(OPTIMIZER))


def _taken_ns(m: Measurements, narrow: NarrowOperations) -> Floats:
    return np.asarray(_passes_ns(m) * narrow.share)


def _counterfactual(m: Measurements, narrow: NarrowOperations) -> Counterfactual:
    taken, queued = _taken_ns(m, narrow), m.ledger.of("compute", PartKind.CORE_WAIT)

    def case(ratio: float, factor: float = 1.0) -> Case:
        removed = taken * (1 - 1 / ratio)
        beside = factor * concurrent_producers_ns(m, spared_cpu_ns=float(removed.mean()))
        return Case(removed_ns=removed, concurrent_ns=beside, delay_share=share_queued(queued, m.ledger.of("compute")))

    expected, low, high = RATIOS[narrow.dtype]
    return Counterfactual(
        assumes=ASSUMES,
        expected=case(expected),
        pessimistic=case(low, PESSIMISTIC_BESIDE),
        optimistic=case(high),
    )


def _fixes(m: Measurements, narrow: NarrowOperations) -> tuple[Fix, ...]:
    words = m.training.words
    fixes = [Fix(text=words.advise(Remedy.NO_NARROW), changes_numerics=True)]
    if narrow.has_bfloat16:
        fixes.append(Fix(text=words.advise(Remedy.NATIVE_NARROW), changes_numerics=True))
    return tuple(fixes)


RULE = Rule(
    name=NAME,
    stages=("compute",),
    topics=("compute", "input", "ledger", "machine", "steps", "trainer", "training"),
    judge=judge,
)
