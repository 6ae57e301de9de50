"""Many small collectives, each of which costs its latency.

What it sees:
    More than ten collectives a step that carry less than 1 MiB each, exposed for at least 3 % of the window, the least that a finding may
    claim. 1 MiB is the size of the first, smallest bucket that DistributedDataParallel makes; NVIDIA's nccl-tests show bus bandwidth
    far from its peak below some MiB. Operations that join (sums, gathers, scatters, broadcasts) count, barriers do not.
Why it costs:
    A collective takes 10 to 50 us however little it carries, more between machines: all ranks must launch it and meet. A few large ones
    carry the same bytes at the link's speed.
How the gain is predicted:
    The steps are replayed with the small collectives of a step as few large ones. Where that makes no step shorter, there is no finding.
When it is wrong:
    Collectives inside the forward (synchronized batch normalization, tensor parallelism) depend on each other and cannot be joined. A
    small collective that takes long mostly waits for a late rank.
What to try:
    Larger buckets, gradients flattened into one tensor, metrics reduced once in many steps.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from slowstep.analyses.events.parts import COLLECTIVES
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import COLLECTIVES_MERGED
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.evidence.device.kernel_side import unless_hidden
from slowstep.diagnosis.evidence.profiled.marked_steps import claim_of, per_step, share_of_steps, steps_seen
from slowstep.diagnosis.evidence.profiled.not_shown import no_device, no_marks
from slowstep.diagnosis.gain import predict, saved_by
from slowstep.diagnosis.replayed import Replayed
from slowstep.diagnosis.rule import CLAIM, Answer, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import PieceKind
from slowstep.reasons import Wording
from slowstep.units import format_share

NAME = "small-collectives"
# torch.distributed._DEFAULT_FIRST_BUCKET_BYTES: what DDP itself thinks worth a collective of its own.
SMALL_BYTES = 1 << 20
# DDP's buckets of 25 MiB make four collectives of a model with 25 million parameters: more than this are no buckets.
A_STEP = 10
JOIN = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")

COLLECTIVE_SIZES_NOT_SHOWN = Wording(
    "collective-sizes-not-traced", "the sizes of the collectives that hold {share:share} of the time are not in the trace: {remedy}"
)


def judge(m: Measurements) -> Answer:
    """Whether small collectives cost more by their number than by their bytes."""
    missing = no_device(m)
    if missing is not None:
        return NotJudged(rule=NAME, reason=missing)
    joining = m.device.collectives.filter(pl.col("operation").is_in(JOIN))
    found = joining.filter(pl.col("bytes") < SMALL_BYTES)
    ns = _exposed_ns(m, found)
    share, low, high = share_of_steps(m, ns)
    a_step = _a_step(m, found)
    if share < CLAIM or a_step <= A_STEP:
        return _unknown(m, joining)
    missing = no_marks(m)
    if missing is not None:
        return NotJudged(rule=NAME, reason=missing)
    carried = found.select((pl.col("bytes") * pl.col("count")).sum())["bytes"][0] / max(m.marks.table.height, 1)
    counterfactual = Replayed(COLLECTIVES_MERGED, assumes="the small collectives of a step were merged into few large ones")
    finding = Finding(
        rule=NAME,
        stage="gradient_sharing",
        title=f"{a_step:,.0f} small collectives a step carry {carried / 1e6:.3g} MB between them: {format_share(share)} of the time",
        share=share,
        share_low=low,
        share_high=high,
        claims=(claim_of(m, COLLECTIVES, PieceKind.SMALL_COLLECTIVES, ns),),
        evidence=(
            Evidence(name="exposed small collectives", value=share, unit="share of window", threshold=CLAIM),
            Evidence(name="their number", value=a_step, unit="per step", threshold=A_STEP),
            Evidence(name="mean size", value=carried / a_step, unit="bytes", threshold=SMALL_BYTES),
            Evidence(name="of all collectives", value=_share_of_all(m, found), unit="share of collectives"),
            Evidence(name="each", value=int(found["total_ns"].sum()) / max(int(found["count"].sum()), 1) / 1e3, unit="us"),
            steps_seen(m),
            saved_by(m, counterfactual),
        ),
        gain=predict(m, counterfactual),
        fixes=_fixes(m),
        names_cause=True,
    )
    return unless_hidden(finding, counterfactual)


def _exposed_ns(m: Measurements, found: pl.DataFrame) -> Floats:
    """Of the ledger's exposed collectives, the time per step that falls to these; shape (steps,)."""
    held = per_step(m, COLLECTIVES)
    total = float(m.device.collectives["exposed_ns"].sum())
    return np.asarray(held * (float(found["exposed_ns"].sum()) / total if total else 0.0))


def _a_step(m: Measurements, found: pl.DataFrame) -> float:
    return int(found["count"].sum()) / max(m.marks.table.height, 1)


def _share_of_all(m: Measurements, found: pl.DataFrame) -> float:
    return int(found["count"].sum()) / max(int(m.device.collectives["count"].sum()), 1)


def _unknown(m: Measurements, joining: pl.DataFrame) -> Answer:
    """Where so many collectives of unknown size would matter if they were small."""
    maybe = joining.filter(pl.col("bytes").is_null() | (pl.col("bytes") < SMALL_BYTES))
    if not maybe["bytes"].is_null().any() or _a_step(m, maybe) <= A_STEP:
        return None
    share = share_of_steps(m, _exposed_ns(m, maybe))[0]
    if share < CLAIM:
        return None
    ask = m.training.words.advise(Remedy.RECORD_COLLECTIVES)
    return NotJudged(rule=NAME, reason=COLLECTIVE_SIZES_NOT_SHOWN(share=share, remedy=ask))


def _fixes(m: Measurements) -> tuple[Fix, ...]:
    words = m.training.words
    return (
        Fix(text=words.advise(Remedy.MERGE_GRADIENTS)),
        Fix(text=words.advise(Remedy.MERGE_COLLECTIVES)),
        Fix(text=f"exchange every k micro-batches: {words.advise(Remedy.ACCUMULATE, ...)}", changes_numerics=True),
    )


RULE = Rule(
    name=NAME, stages=("gradient_sharing",), topics=("device", "facts", "ledger", "marks", "replay", "steps", "training"), judge=judge
)
