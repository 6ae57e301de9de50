"""The gradient scaler reads back in every step, so the device idles.

It asks whether gradients overflowed.

What it sees:
    The read-back that torch.amp.GradScaler does between its check of the gradients and the optimizer's step, and the time for which the
    device then had nothing to do: at least 3 % of the window, the least that a finding may claim. Seed 002 names the gaps that dynamic loss
    scaling leaves, without a threshold.
Why it costs:
    The host waits until the backward is done and only then launches the optimizer: a gap in every step that grows with the number of the
    optimizer's kernels and of the parameters.
How the gain is predicted:
    The steps are replayed without the wait.
When it is wrong:
    Where the device trails far behind the host, or the optimizer is a single kernel, the gap is some tens of microseconds. A reading of the
    gradients' norm between scaler and optimizer may be taken for it. TensorFlow's loss scaling leaves no such call, and is not judged.
What to try:
    bfloat16, which needs no scaling, or an optimizer that takes the scaler's answer on the device (fused=True).
"""

from __future__ import annotations

import polars as pl

from slowstep.analyses.device.charged import CHARGED
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import NO_LOSS_SCALING
from slowstep.diagnosis.evidence.device.kernel_side import compute_kernels, gaps_share
from slowstep.diagnosis.evidence.profiled.marked_steps import by_step, claims_of, share_of_steps, steps_seen
from slowstep.diagnosis.evidence.profiled.not_shown import needs_device, no_launches, with_stacks
from slowstep.diagnosis.gain import predict, saved_by
from slowstep.diagnosis.replayed import Replayed
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._events import Event
from slowstep.frameworks._known import shows
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import Part, PieceKind
from slowstep.reasons import Reason, Wording
from slowstep.units import format_share

NAME = "loss-scaling-gaps"
# Scaling is for float16: a trace in which hardly any kernel computes in it has none (XProf's mark for 16 bit).
SIXTEEN_BIT = 0.10
# GPUs before compute capability 8.0 have no bfloat16.
FIRST_BFLOAT16 = 8.0

SCALING_NOT_TOLD_APART = Wording(
    "scaling-not-told-apart",
    "{framework}'s loss scaling cannot be distinguished from other work in a trace: compare with {bfloat16}, which needs none",
)
NO_OPERATORS_OF_SCALER = Wording(
    "no-operators-of-scaler",
    "the trace has no operators, by which the scaler's check is known: {remedy} as well",
)


@needs_device(NAME)
def judge(m: Measurements) -> Answer:
    """Whether the scaler's read-back lets the device run dry."""
    reads = m.device.loss_scaling
    ns = by_step(m, reads["step"], reads["run_dry_ns"])
    share, low, high = share_of_steps(m, ns)
    if share < CLAIM:
        missing = _not_seen(m, reads)
        return NotJudged(rule=NAME, reason=missing) if missing is not None else None
    known = reads.filter(pl.col("where").is_not_null())
    where = known["where"].mode().sort()[0] if known.height else None
    steps = reads["step"].n_unique()
    counterfactual = Replayed(NO_LOSS_SCALING, assumes="the optimizer were launched without waiting for the scaler's answer")
    finding = Finding(
        rule=NAME,
        stage="d2h",
        title=f"the gradient scaler's check for overflow is read back by the host{f' ({where})' if where else ''}: "
        f"{format_share(share)} of the time",
        share=share,
        share_low=low,
        share_high=high,
        claims=_claims(m, reads),
        evidence=(
            Evidence(name="device idle after the scaler's read-back", value=share, unit="share of window", threshold=CLAIM, where=where),
            Evidence(name="read-backs", value=reads.height / max(m.marks.table.height, 1), unit="per step"),
            Evidence(name="steps with it", value=steps, unit="steps"),
            Evidence(name="host waits in it", value=_wait_ms(m, reads), unit="ms per step"),
            steps_seen(m),
            saved_by(m, counterfactual),
        ),
        gain=predict(m, counterfactual),
        fixes=_fixes(m, with_stacks(m, [where])),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _not_seen(m: Measurements, reads: pl.DataFrame) -> Reason | None:
    """Why no read-back was seen where there may be some: in a training in float16 whose host calls are not all there."""
    kernels = compute_kernels(m)
    in_float16 = int(kernels.filter(pl.col("precision") == "float16")["total_ns"].sum()) / max(int(kernels["total_ns"].sum()), 1)
    idle = gaps_share(m)
    if reads.height or in_float16 < SIXTEEN_BIT or idle < CLAIM:
        return None
    if shows(m.facts.framework, Event.SCALE_CHECK) is False:
        return SCALING_NOT_TOLD_APART(framework=m.training.words.title, bfloat16=m.training.words.advise(Remedy.BFLOAT16))
    if "operators" not in m.facts.recorded:
        return NO_OPERATORS_OF_SCALER(remedy=m.training.words.advise(Remedy.RECORD_OPERATORS))
    return no_launches(m, CLAIM)


def _claims(m: Measurements, reads: pl.DataFrame) -> tuple[Part, ...]:
    return claims_of(m, reads, PieceKind.LOSS_SCALING, "run_dry_ns", CHARGED)


def _wait_ms(m: Measurements, reads: pl.DataFrame) -> float:
    return float((reads["end_ns"] - reads["start_ns"]).sum()) / 1e6 / max(m.marks.table.height, 1)


def _fixes(m: Measurements, unknown: str) -> tuple[Fix, ...]:
    words = m.training.words
    fused = Fix(
        text=f"let the optimizer skip its update on the device, so that nothing is read back{unknown}: {words.advise(Remedy.SCALED_UPDATE)}"
    )
    if m.device.compute_capability is not None and m.device.compute_capability < FIRST_BFLOAT16:
        return (fused,)
    bfloat16 = words.advise(Remedy.BFLOAT16 if words.has_loop else Remedy.UNSCALED)
    return Fix(text=f"bfloat16 needs no loss scaling: {bfloat16}", changes_numerics=True), fused


RULE = Rule(
    name=NAME, stages=("d2h",), topics=("completeness", "device", "facts", "ledger", "marks", "replay", "steps", "training"), judge=judge
)
