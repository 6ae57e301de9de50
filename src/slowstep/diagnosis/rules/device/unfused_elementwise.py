"""Chains of small elementwise kernels pass their data through memory.

What it sees:
    Elementwise kernels that no compiler made hold at least 10 % of the window, more than ten of them a step. Neither XProf nor the Kineto
    plugin names a threshold; under 10 % even removing all of them gains less than the 1.10 that counts as a bottleneck.
Why it costs:
    An elementwise kernel computes one or two operations per number that it reads and writes: it takes as long as the memory takes. Fused
    into one pass, intermediate results stay in registers; seed 002 and the XLA guide advise the same.
How the gain is predicted:
    The steps are replayed with each run of elementwise kernels as one pass over memory. Where that makes no step shorter (no such kernels
    follow each other, or the device waits for the host), there is no finding.
When it is wrong:
    Large products between them leave little to fuse, and a single pass over an activation is needed anyway. Compiling takes minutes,
    and again for each new shape; rounding may differ in the last digit.
What to try:
    torch.compile or XLA; fused variants of the optimizer, of normalization and of activation with bias.
"""

from __future__ import annotations

import polars as pl

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import FUSED_ELEMENTWISE
from slowstep.diagnosis.evidence.device.kernel_side import compute_kernels, kernel_claims, kernel_rows, kernels_ns, unless_hidden, whose
from slowstep.diagnosis.evidence.profiled.marked_steps import share_of_steps, steps_seen
from slowstep.diagnosis.evidence.profiled.not_shown import needs_device, no_marks
from slowstep.diagnosis.gain import predict, saved_by
from slowstep.diagnosis.replayed import Replayed
from slowstep.diagnosis.rule import Answer, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._events import Event
from slowstep.frameworks._known import events
from slowstep.frameworks._remedies import Remedy
from slowstep.units import format_share

NAME = "unfused-elementwise"
SHARE = 0.10
# Fewer kernels than this in a step are no chains: a loss, a mask, a scaling.
A_STEP = 10
FUSED = events(Event.FUSED)


@needs_device(NAME)
def judge(m: Measurements) -> Answer:
    """Whether elementwise kernels that nobody fused hold a tenth of the time."""
    elementwise = compute_kernels(m).filter(pl.col("class") == "elementwise")
    found = elementwise.filter(~pl.col("name").str.contains(FUSED))
    share, low, high = share_of_steps(m, kernels_ns(m, found))
    a_step = int(found["count"].sum()) / max(m.marks.table.height, 1)
    if share < SHARE or a_step <= A_STEP:
        return None
    missing = no_marks(m)
    if missing is not None:
        return NotJudged(rule=NAME, reason=missing)
    worst = found.sort("total_ns", descending=True).row(0, named=True)
    named = whose(worst["operator"], worst["where"], None)
    fused_ns = int(elementwise["total_ns"].sum()) - int(found["total_ns"].sum())
    counterfactual = Replayed(FUSED_ELEMENTWISE, assumes="each run of elementwise kernels were one pass over memory")
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=f"{a_step:,.0f} elementwise kernels a step each go through memory on their own: {format_share(share)} of the time",
        share=share,
        share_low=low,
        share_high=high,
        claims=kernel_claims(found),
        evidence=(
            Evidence(name="unfused elementwise kernels", value=share, unit="share of window", threshold=SHARE),
            Evidence(name="their number", value=a_step, unit="per step", threshold=A_STEP),
            Evidence(name="fused already", value=fused_ns / max(int(elementwise["total_ns"].sum()), 1), unit="share of elementwise time"),
            *kernel_rows(m, found),
            steps_seen(m),
            saved_by(m, counterfactual),
        ),
        gain=predict(m, counterfactual),
        fixes=_fixes(m, f"for {named}, which takes most time: " if named else ""),
    )
    return unless_hidden(finding, counterfactual)


def _fixes(m: Measurements, named: str) -> tuple[Fix, ...]:
    words = m.training.words
    first = f"{named}{words.advise(Remedy.FUSE_ELEMENTWISE)}"
    return Fix(text=first, changes_numerics=True), Fix(text=words.advise(Remedy.FUSED_VARIANTS), changes_numerics=True)


RULE = Rule(name=NAME, stages=("compute",), topics=("device", "facts", "ledger", "marks", "replay", "steps", "training"), judge=judge)
