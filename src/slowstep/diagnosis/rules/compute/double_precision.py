"""The model computes in float64, where float32 would do.

What it sees:
    At least half of the elements of the optimizer's parameters are float64 (recorded at its first call), and compute holds at least 3 % of
    the window. In a profiler's trace: float64 kernels of the device, or operators with float64 inputs on the host where there is no
    device, hold at least 3 % of the window, the least that a finding may claim.
Why it costs:
    Twice the bytes for memory and caches, half the numbers per vector instruction; and torch's fast convolutions (oneDNN) know no float64.
    Devices do float64 at a half (A100, H100) to a 64th (boards for graphics) of their rate for float32 (NVIDIA's datasheets).
How the gain is predicted:
    r is compute times (1 - 1/ratio). How many times as long float64 takes was measured by benchmarks/double_precision.py, one core of each
    of two processors, 16 samples: convolutions 2.6 to 3.0 and 4.2 to 4.5, other layers 1.3 to 2.4; with one sample 0.8 to 2.0. Which of
    them it is is known from the share of the forward's stacks that stand in convolutions. B is what the loader's workers need per step.
    From a trace: the steps are replayed with the float64 kernels in float32.
When it is wrong:
    Small tensors cost what their dispatch costs, whatever they hold: then the gain is little. Some computations (long sums, matrix
    inverses, physics) need float64.
What to try:
    Make model and batches float32; often a NumPy array without a dtype has made the first tensor float64.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import polars as pl

from slowstep.analyses.events.parts import FORWARD, piece
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import SINGLE_PRECISION
from slowstep.analyses.steps.steps import Floats
from slowstep.calibration import computing
from slowstep.diagnosis.evidence.device.kernel_side import compute_kernels, kernel_claims, kernel_rows, kernels_ns, unless_hidden
from slowstep.diagnosis.evidence.profiled.marked_steps import per_step, share_of_steps, steps_seen
from slowstep.diagnosis.evidence.profiled.not_shown import no_device
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE, concurrent_producers_ns
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval, share_queued
from slowstep.diagnosis.provider import Details, HeldTime, Provided, Provider, Unsure
from slowstep.diagnosis.replayed import Replayed
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule, judge_provided
from slowstep.findings import Evidence, Fix
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import BACKWARD, OPTIMIZER, Part, PartKind, PieceKind
from slowstep.reasons import Wording
from slowstep.shares import MOSTLY
from slowstep.units import format_share

NAME = "double-precision"
# Of the time in float64 over that in float32: expected, pessimistic, optimistic.
CONVOLUTIONS, OTHERS = ((each.value, *each.bounds) for each in (computing.DOUBLE_CONVOLUTIONS, computing.DOUBLE_OTHERS))
# What a trace without a device charges to operators.
HOST_PARTS = (FORWARD, BACKWARD, OPTIMIZER)

PRECISION_NOT_SHOWN = Wording(
    "precision-not-traced", "the precision of what takes {share:share} of the time is not in the trace: {remedy}, for the types of inputs"
)


def judge(m: Measurements) -> Answer:
    """Whether the model computes in float64."""
    answer = judge_provided(m, NAME, PROVIDERS)
    if isinstance(answer, Judged) and isinstance(answer.counterfactual, Replayed):
        return unless_hidden(answer.finding, answer.counterfactual)
    return answer


def _by_parameters(m: Measurements) -> HeldTime | None:
    """What compute holds whose parameters are float64."""
    dtypes = m.compute.work.dtypes or {}
    elements = sum(dtypes.values())
    double = dtypes.get("float64", 0) / elements if elements else 0.0
    # On an accelerator the ratio is another one, up to 64.
    if double < MOSTLY or m.compute.device != "cpu":
        return None
    share, low, high = share_interval(m, m.ledger.of("compute"))
    return HeldTime(share=share, low=low, high=high, at_least=CLAIM, details=partial(_of_parameters, m, double, share))


def _of_parameters(m: Measurements, double: float, share: float) -> Details:
    counterfactual = _counterfactual(m)
    return Details(
        stage="compute",
        title=f"{format_share(double)} of the parameters are float64: the model computes with twice the bytes, {format_share(share)} "
        "of the time",
        claims=m.ledger.parts_of("compute"),
        evidence=(
            Evidence(name="float64", value=double, unit="share of parameters", threshold=MOSTLY),
            Evidence(name="compute", value=share, unit="share of window", threshold=CLAIM),
            Evidence(name="convolutions", value=m.compute.work.convolutions, unit="share of forward"),
            saved_by(m, counterfactual),
        ),
        counterfactual=counterfactual,
        gain=predict(m, counterfactual),
        fixes=_fixes(m),
    )


def _counterfactual(m: Measurements) -> Counterfactual:
    # What waits for a core goes with the rest.
    compute, queued = m.ledger.of("compute"), m.ledger.of("compute", PartKind.CORE_WAIT)
    working = compute - queued
    convolutions = m.compute.work.convolutions or 0.0

    def case(at: int, factor: float) -> Case:
        left = convolutions / CONVOLUTIONS[at] + (1 - convolutions) / OTHERS[at]
        taken = compute if factor == 1.0 else working
        return Case(
            removed_ns=taken * (1 - left),
            concurrent_ns=factor * concurrent_producers_ns(m, spared_cpu_ns=float(working.mean()) * (1 - left)),
            delay_share=share_queued(taken - working, taken),
        )

    return Counterfactual(
        assumes="float32 were as much faster than float64 as in slowstep's benchmark",
        expected=case(0, 1.0),
        pessimistic=case(1, PESSIMISTIC_BESIDE),
        optimistic=case(2, 1.0),
    )


def _by_kernels(m: Measurements) -> Provided:
    """What kernels hold, or without a device operators, that compute in float64."""
    missing = no_device(m)
    if missing is not None:
        return Unsure(reason=missing)
    found = compute_kernels(m).filter(pl.col("precision") == "float64")
    share, low, high = share_of_steps(m, kernels_ns(m, found) if m.device.seen else _on_host_ns(m, "float64"))
    if share < CLAIM:
        return _unknown(m)
    return HeldTime(share=share, low=low, high=high, at_least=CLAIM, details=partial(_of_kernels, m, found, share))


def _of_kernels(m: Measurements, found: pl.DataFrame, share: float) -> Details:
    what = "kernels" if m.device.seen else "operators on the host"
    counterfactual = Replayed(SINGLE_PRECISION, assumes="the same work were done in float32")
    return Details(
        stage="compute",
        title=f"{what} compute in float64 for {format_share(share)} of the time",
        claims=kernel_claims(found) if m.device.seen else _host_claims(m),
        evidence=(
            Evidence(name=f"float64 {what}", value=share, unit="share of window", threshold=CLAIM),
            *kernel_rows(m, found),
            steps_seen(m),
            saved_by(m, counterfactual),
        ),
        counterfactual=counterfactual,
        gain=predict(m, counterfactual),
        fixes=_fixes(m),
    )


def _host_claims(m: Measurements) -> tuple[Part, ...]:
    return tuple(piece(part, PieceKind.PRECISION, "float64") for part in HOST_PARTS if m.ledger.share_of(part))


def _on_host_ns(m: Measurements, precision: str) -> Floats:
    """Of the operators' time in each step what falls to those with inputs of a precision. Shape (steps,)."""
    placed = m.device.placement.filter((pl.col("place") == "host") & (pl.col("precision") == precision))
    return np.asarray(per_step(m, *HOST_PARTS) * float(placed["share"].sum()))


def _unknown(m: Measurements) -> Unsure | None:
    """Where as much time as a finding needs is spent in a precision that the trace does not tell."""
    unknown = kernels_ns(m, compute_kernels(m).filter(pl.col("precision").is_null())) if m.device.seen else _on_host_ns(m, "unknown")
    share = share_of_steps(m, unknown)[0]
    # Names of float64 kernels nearly always tell it (dgemm, <double>): a few that tell nothing are no reason for doubt.
    if share < MOSTLY:
        return None
    # Nothing is in float64 that was not asked for: not to know it leaves no verdict in doubt.
    remedy = m.training.words.advise(Remedy.RECORD_SHAPES)
    return Unsure(reason=PRECISION_NOT_SHOWN(share=share, remedy=remedy), advisory=True)


def _fixes(m: Measurements) -> tuple[Fix, ...]:
    return (
        Fix(text=m.training.words.advise(Remedy.FLOAT32), changes_numerics=True),
        Fix(text="keep float64 for the few operations that need it, and cast around them", changes_numerics=True),
    )


PROVIDERS = (
    Provider(topics=("device", "facts", "marks", "replay"), find=_by_kernels),
    Provider(topics=("compute", "input", "machine"), find=_by_parameters),
)
RULE = Rule(name=NAME, stages=("compute",), topics=("ledger", "steps", "training"), providers=PROVIDERS, judge=judge)
