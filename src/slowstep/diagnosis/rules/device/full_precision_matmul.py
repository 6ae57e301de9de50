"""Matrix products in float32 leave the Tensor Cores unused.

So do convolutions.

What it sees:
    Kernels of matrix multiplications and convolutions in float32 on a device whose Tensor Cores could do them, and did not: at least 3 % of
    the window, the least that a finding may claim. XProf recommends 16 bit where less than 10 % of the device's time is spent in it: below
    that threshold the whole model is said to be in full precision, above it the operators that fell back to it are named.
Why it costs:
    An A100 does 19.5 TFLOP/s in float32 on its ordinary cores, 156 in TF32 and 312 in 16 bit on its Tensor Cores (NVIDIA's datasheet), and
    16 bit halve the bytes that are read and written.
How the gain is predicted:
    The steps are replayed with these kernels at their time in 16 bit. Where that makes no step shorter (the device waits for the host or
    for other ranks), there is no finding.
When it is wrong:
    Small products are bound by memory or by their launch and gain little. A few products are kept in float32 on purpose (a loss over a
    large vocabulary, a norm of attention). 16 bit and TF32 change the numerics: compare a few hundred steps' losses.
What to try:
    bfloat16 by autocast, or TF32, which keeps float32 storage and needs one line.
"""

from __future__ import annotations

import polars as pl

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import HALF_PRECISION
from slowstep.diagnosis.evidence.device.kernel_side import (
    compute_kernels,
    kernel_claims,
    kernel_rows,
    kernels_ns,
    sixteen_bit_share,
    unless_hidden,
    whose,
)
from slowstep.diagnosis.evidence.profiled.marked_steps import share_of_steps, steps_seen
from slowstep.diagnosis.evidence.profiled.not_shown import needs_device
from slowstep.diagnosis.gain import predict, saved_by
from slowstep.diagnosis.replayed import Replayed
from slowstep.diagnosis.rule import CLAIM, Answer, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.reasons import Wording
from slowstep.units import format_share

NAME = "full-precision-matmul"
# XProf's overview recommends 16 bit where the share of device time in it is below this (its "16-bit operations" line).
XPROF_SIXTEEN_BIT = 0.10
CLASSES = ("matmul", "convolution")
# bfloat16 and TF32 came with compute capability 8.0 (CUDA C++ Programming Guide); before, Tensor Cores take float16 only.
FIRST_BFLOAT16 = 8.0

DEVICE_UNKNOWN = Wording(
    "device-unknown",
    "the trace does not say what device it is, so whether it has Tensor Cores is not known: record with the framework's own profiler, "
    "which writes the device's properties",
)
PRECISION_NOT_NAMED = Wording(
    "precision-not-named", "the precision of kernels that take {share:share} of the time is not in their names: {remedy}"
)


@needs_device(NAME)
def judge(m: Measurements) -> Answer:
    """Whether eligible kernels run in float32 on ordinary cores."""
    products = compute_kernels(m).filter(pl.col("class").is_in(CLASSES))
    ordinary = products.filter((pl.col("precision") == "float32") & ~pl.col("tensor_core").fill_null(False))
    found = ordinary.filter(pl.col("eligible"))
    share, low, high = share_of_steps(m, kernels_ns(m, found))
    if share < CLAIM:
        return _unknown(m, products, ordinary)
    in_sixteen_bit = sixteen_bit_share(compute_kernels(m))
    worst = found.sort("total_ns", descending=True).row(0, named=True)
    counterfactual = Replayed(HALF_PRECISION, assumes="these kernels took the time that they take in 16 bit on Tensor Cores")
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=_title(share, in_sixteen_bit, worst["operator"], worst["where"]),
        opens_with_name=_opens_with_name(in_sixteen_bit, worst["operator"], worst["where"]),
        share=share,
        share_low=low,
        share_high=high,
        claims=kernel_claims(found),
        evidence=(
            Evidence(name="in float32, without Tensor Cores", value=share, unit="share of window", threshold=CLAIM),
            Evidence(name="kernels in 16 bit", value=in_sixteen_bit, unit="share of kernel time", threshold=XPROF_SIXTEEN_BIT),
            *kernel_rows(m, found),
            steps_seen(m),
            saved_by(m, counterfactual),
        ),
        gain=predict(m, counterfactual),
        fixes=_fixes(m, whose(worst["operator"], worst["where"], None) if (in_sixteen_bit or 0.0) >= XPROF_SIXTEEN_BIT else None),
        names_cause=worst["operator"] is not None,
    )
    return unless_hidden(finding, counterfactual)


def _unknown(m: Measurements, products: pl.DataFrame, ordinary: pl.DataFrame) -> Answer:
    """Where the finding would be one if what is not known of the kernels were so."""
    if share_of_steps(m, kernels_ns(m, ordinary.filter(pl.col("eligible").fill_null(True))))[0] >= CLAIM:
        return NotJudged(rule=NAME, reason=DEVICE_UNKNOWN())
    maybe = products.filter(pl.col("eligible").fill_null(True) & ~pl.col("tensor_core").fill_null(False))
    unknown = maybe.filter(pl.col("precision").is_null())
    share = share_of_steps(m, kernels_ns(m, unknown))[0]
    if share < CLAIM:
        return None
    ask = m.training.words.advise(Remedy.NAME_PRECISION)
    return NotJudged(rule=NAME, reason=PRECISION_NOT_NAMED(share=share, remedy=ask))


def _opens_with_name(in_sixteen_bit: float | None, operator: str | None, where: str | None) -> bool:
    return (in_sixteen_bit or 0.0) >= XPROF_SIXTEEN_BIT and bool(whose(operator, where, None))


def _title(share: float, in_sixteen_bit: float | None, operator: str | None, where: str | None) -> str:
    if (in_sixteen_bit or 0.0) >= XPROF_SIXTEEN_BIT:
        named = whose(operator, where, None) or "some operators"
        return f"{named} fell back to float32, which does not use the Tensor Cores: {format_share(share)} of the time"
    return f"matrix multiplications and convolutions run in float32, which does not use the Tensor Cores: {format_share(share)} of the time"


def _fixes(m: Measurements, fell_back: str | None) -> tuple[Fix, ...]:
    old = m.facts.vendor != "amd" and m.device.compute_capability is not None and m.device.compute_capability < FIRST_BFLOAT16
    words = m.training.words
    first = words.advise(Remedy.FLOAT16 if old else Remedy.BFLOAT16)
    if fell_back is not None:
        first = f"bring {fell_back} under the mixed precision that the rest has: {first}"
    fixes = [Fix(text=first, changes_numerics=True)]
    if not old and m.facts.vendor != "amd":
        fixes.append(Fix(text=f"TF32, float32 stays in memory: {words.advise(Remedy.TF32)}", changes_numerics=True))
    return tuple(fixes)


RULE = Rule(name=NAME, stages=("compute",), topics=("device", "facts", "ledger", "marks", "replay", "steps", "training"), judge=judge)
