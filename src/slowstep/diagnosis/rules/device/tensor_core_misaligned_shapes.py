"""Sizes that are not multiples of 16 bytes slow 16-bit products.

They keep them from the Tensor Cores, or from their full rate.

What it sees:
    Kernels of matrix multiplications and convolutions in 16 bit (or TF32) that miss the Tensor Cores though the device has them, or whose
    name says that they read less than 16 bytes at once (`align1`, `align2`), and sizes of their operators that are no multiples of 8
    elements (TF32: 4): together at least 3 % of the window, the least that a finding may claim.
Why it costs:
    NVIDIA's guide on matrix multiplication: Tensor Cores want all sizes in multiples of 16 bytes; older cuBLAS and cuDNN do not use them
    otherwise, newer ones use them at a lower rate. On an A100 multiples of 128 bytes are best.
How the gain is predicted:
    The steps are replayed with the kernels that miss the Tensor Cores at the rate of aligned ones. Where most of the time is that of
    kernels that use them slowly, the gain is unknown.
When it is wrong:
    Padding computes more than before: a size of 3 padded to 8 costs more than it spares. Products with a vector are left out, as no padding
    helps them. Sizes of the first convolution (3 colours) and the last layer are given by the data, and are rarely worth it.
What to try:
    Pad the vocabulary, the classes and the hidden sizes to multiples of 64, sequences and batches to multiples of 8.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import polars as pl

from slowstep.analyses.device.tensor_cores import MULTIPLE, WhyNot
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import ALIGNED_SHAPES
from slowstep.diagnosis.evidence.device.kernel_side import (
    SIXTEEN_BIT,
    compute_kernels,
    kernel_claims,
    kernel_rows,
    kernels_ns,
    unless_hidden,
    whose,
)
from slowstep.diagnosis.evidence.profiled.marked_steps import share_of_steps, steps_seen
from slowstep.diagnosis.evidence.profiled.not_shown import needs_device
from slowstep.diagnosis.gain import predict, saved_by, unknown_gain
from slowstep.diagnosis.replayed import Replayed
from slowstep.diagnosis.rule import CLAIM, Answer, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.reasons import Reason, Wording
from slowstep.shares import MOSTLY
from slowstep.units import format_share

NAME = "tensor-core-misaligned-shapes"
# CUTLASS writes how many elements a kernel reads at once into its name, cuBLAS calls the same ldg; of several numbers the first input's.
AT_ONCE = r"(?:_align[abc]?|_ldg)(\d+)(?:_|$)"
# The replay changes all 16-bit kernels that miss the Tensor Cores, whatever the reason: its gain is theirs only if they are nearly all.
ALL_BUT_FEW = 0.9
PRECISIONS = (*SIXTEEN_BIT, "tf32")

SHAPES_NOT_SHOWN = Wording(
    "shapes-not-traced", "kernels with {share:share} of the time miss the Tensor Cores, and the trace has no shapes: {remedy}"
)

FULL_RATE_UNKNOWN = Wording(
    "full-rate-unknown", "most of these kernels use the Tensor Cores, and by how much they miss their full rate is not known"
)
NOT_TOLD_APART = Wording("not-told-apart", "the replay cannot tell them from other kernels beside the Tensor Cores, which no padding helps")


@needs_device(NAME)
def judge(m: Measurements) -> Answer:
    """Whether misaligned sizes cost Tensor Core time."""
    able = compute_kernels(m).filter(pl.col("eligible") & pl.col("precision").is_in(PRECISIONS))
    wanted = pl.col("precision").replace_strict(MULTIPLE, default=None, return_dtype=pl.Int64)
    narrow = pl.col("tensor_core") & (pl.col("name").str.extract(AT_ONCE).cast(pl.Int64) < wanted)
    missed = ~pl.col("tensor_core") & (pl.col("why_not") == WhyNot.MISALIGNED)
    found = able.filter(narrow.fill_null(False) | missed.fill_null(False))
    share, low, high = share_of_steps(m, kernels_ns(m, found))
    if share < CLAIM:
        return _unknown(m, able)
    worst = found.sort("total_ns", descending=True).row(0, named=True)
    named = whose(worst["operator"], worst["where"], worst["shapes"]) or worst["name"]
    without = int(found.filter(~pl.col("tensor_core"))["total_ns"].sum()) / max(int(found["total_ns"].sum()), 1)
    unknown = _not_replayed(able, found, without)
    counterfactual = Replayed(ALIGNED_SHAPES, assumes="these kernels ran at the rate of aligned ones (what padding adds is not counted)")
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=f"sizes that are not multiples of 16 bytes keep {named} from the Tensor Cores' full rate: {format_share(share)} of the time",
        share=share,
        share_low=low,
        share_high=high,
        claims=kernel_claims(found),
        evidence=(
            Evidence(name="kernels with misaligned sizes", value=share, unit="share of window", threshold=CLAIM),
            Evidence(name="of them, without Tensor Cores", value=without, unit="share of their time"),
            Evidence(name="sizes should be multiples of", value=_sizes(worst) or named, unit="", threshold=MULTIPLE[worst["precision"]]),
            *kernel_rows(m, found),
            steps_seen(m),
            saved_by(m, counterfactual if unknown is None else None),
        ),
        gain=predict(m, counterfactual) if unknown is None else unknown_gain(counterfactual.assumes, because=unknown),
        fixes=_fixes(m, worst["class"], named),
        names_cause=True,
    )
    return unless_hidden(finding, counterfactual if unknown is None else None)


def _not_replayed(able: pl.DataFrame, found: pl.DataFrame, without: float) -> Reason | None:
    """Why the replay does not tell what these kernels would gain; None where it does."""
    # The replay has a time for kernels that would change to Tensor Cores; of those that use them slowly nobody knows what they would gain.
    if without < MOSTLY:
        return FULL_RATE_UNKNOWN()
    replayed = able.filter(pl.col("precision").is_in(SIXTEEN_BIT) & ~pl.col("tensor_core").fill_null(False))
    if without * int(found["total_ns"].sum()) < ALL_BUT_FEW * int(replayed["total_ns"].sum()):
        return NOT_TOLD_APART()
    return None


def _unknown(m: Measurements, able: pl.DataFrame) -> Answer:
    """Where kernels miss the Tensor Cores and nothing shows why."""
    unknown = able.filter(~pl.col("tensor_core") & (pl.col("why_not").fill_null(WhyNot.UNKNOWN) == WhyNot.UNKNOWN))
    share = share_of_steps(m, kernels_ns(m, unknown))[0]
    if share < CLAIM or "shapes" in m.facts.recorded:
        return None
    ask = m.training.words.advise(Remedy.RECORD_SHAPES)
    return NotJudged(rule=NAME, reason=SHAPES_NOT_SHOWN(share=share, remedy=ask))


def _sizes(kernel: Mapping[str, Any]) -> str | None:
    """What is wrong with the sizes of a kernel that misses the Tensor Cores for them."""
    if kernel["multiple"] is None:
        return None
    sizes = ", ".join(f"{name} {size}" for name, size in json.loads(kernel["sizes"]).items())
    return f"sizes that are not multiples of {kernel['multiple']} ({sizes})"


def _fixes(m: Measurements, kind: str, named: str) -> tuple[Fix, ...]:
    if kind == "convolution":
        channels = m.training.words.advise(Remedy.ALIGNED_CHANNELS)
        image = Fix(text="pad the image's 3 channels to 4 or 8", changes_numerics=True)
        return Fix(text=f"{channels} ({named})", changes_numerics=True), image
    return (
        Fix(text=f"pad vocabulary, classes and hidden sizes to multiples of 64 ({named})", changes_numerics=True),
        Fix(text="batches and sequences in multiples of 8: drop_last=True, pad_to_multiple_of=8 in the collator", changes_numerics=True),
    )


RULE = Rule(name=NAME, stages=("compute",), topics=("device", "facts", "ledger", "marks", "replay", "steps", "training"), judge=judge)
