"""What the rules about a profiler's trace have in common: shares with their spread over steps, and what a trace may not show."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from slowstep.analyses.events.parts import COLUMNS, is_part, parts_of, piece
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.user_places import is_function
from slowstep.analyses.steps.chance import SEED
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.gain import RESAMPLES
from slowstep.findings import Evidence
from slowstep.parts import Part
from slowstep.reasons import Reason, Wording

# Host time looks longer in a trace than it is: torch.profiler makes a small step's processor time 1.23 to 1.70 times as long
# (measured). What is 5 % of such a step is the 3 % of docs/definitions.md of one that nobody profiles. XProf's and the Kineto plugin's
# first marks for the same quantities are 3 and 5 %.
HOST_SHARE: Final = 0.05
# With fewer of the device's kernels led back to their launch, what the host did before the others is unknown.
COVERED: Final = 0.90
# How calls of the devices' runtimes and drivers are named: cudaLaunchKernel, hipModuleLaunchKernel, cuLaunchKernel.
RUNTIME_CALL: Final = r"(cuda|hip|cu)[A-Z]"
# What to do where one step was chosen and does not tell enough.
ALL_STEPS: Final = "analyze the trace without --step"
# A finding that has most of a part takes it as a whole: what others say of that part is the same in other words.
MOST: Final = 0.5

NO_DEVICE_WORK: Final = Wording("no-device-work", "the trace shows no work of the device: {remedy}")
NO_RUNTIME_CALLS: Final = Wording(
    "no-runtime-calls", "the trace has no calls of the device's runtime, so what the host did in a gap is unknown: {remedy}"
)
LAUNCHES_MISSING: Final = Wording(
    "launches-missing",
    "only {share:share} of the kernels have their launch in the trace: {remedy}, over fewer steps so that no event is dropped",
)
NO_MARKS: Final = Wording("no-marks", "the trace marks no steps, which could show what recurs in each of them: {remedy}")
ONE_STEP_CHOSEN: Final = Wording("one-step-chosen", f"one step was chosen, which cannot show what recurs in each: {ALL_STEPS}")
NO_WHOLE_STEP: Final = Wording("no-whole-step", "the trace holds no whole step")
ONE_STEP: Final = Wording("one-step", "the window has one step only, which cannot show what recurs in each: profile at least three steps")


def per_step(m: Measurements, *parts: Part) -> Floats:
    """Time charged to some parts together in each step. Shape (steps,), ns."""
    return m.ledger.of_parts(*(part.whole for part in parts))


def by_step(m: Measurements, step: pl.Series, ns: pl.Series) -> Floats:
    """Sums of times by step. Shape (steps,), ns."""
    return np.bincount(step.to_numpy(), weights=ns.to_numpy(), minlength=m.marks.table.height).astype(np.float64)


def share_interval(m: Measurements, part_ns: Floats) -> tuple[float, float, float]:
    """Share of the window that a part takes, and its 90 % interval by the bootstrap over steps; a single step has no spread.

    Steps are drawn one by one: a trace holds too few of them for blocks.
    """
    step_ns = m.step_ns
    if not len(step_ns) or not step_ns.sum():
        return 0.0, 0.0, 0.0
    drawn = np.random.default_rng(SEED).integers(0, len(step_ns), size=(RESAMPLES, len(step_ns)))
    low, high = np.percentile(part_ns[drawn].sum(axis=1) / np.maximum(step_ns[drawn].sum(axis=1), 1.0), [5, 95])
    return float(part_ns.sum() / step_ns.sum()), float(low), float(min(high, 1.0))


def spread_over(part_ns: Floats, total_ns: float, steps: int) -> Floats:
    """A time of which only the sum is known and the number of steps in which it occurs, laid over steps as a part of the ledger is.

    Of that part it gets the steps with most time: what occurs in few steps must have the spread of few steps.
    """
    kept = np.zeros(len(part_ns))
    chosen = np.argsort(-part_ns, kind="stable")[: max(steps, 1)]
    kept[chosen] = part_ns[chosen] if part_ns[chosen].sum() else 1.0
    return np.asarray(kept * (total_ns / kept.sum())) if len(kept) else kept


def claim_of(m: Measurements, part: Part, what: str, ns: Floats) -> Part:
    """The claim of a finding about `ns` (shape (steps,)) of a part of the ledger: the part where that is most of it, else a piece of it."""
    return part if float(ns.sum()) >= MOST * float(per_step(m, part).sum()) else piece(part, what)


def claims_of(m: Measurements, rows: pl.DataFrame, what: str, ns: str = "ns", columns: tuple[str, ...] = COLUMNS) -> tuple[Part, ...]:
    """The claims of a finding about rows with `step`, a part in some columns and, in one named `ns`, their time: one for each part."""
    return tuple(
        claim_of(m, part, what, by_step(m, own["step"], own[ns]))
        for part in parts_of(rows, columns)
        for own in (rows.filter(is_part(part, columns=columns)),)
    )


def largest_stage(rows: pl.DataFrame, ns: str = "ns") -> str:
    """The stage to which most time of rows with `stage` and, in a column named `ns`, their time was charged."""
    return str(rows.group_by("stage").agg(pl.col(ns).sum()).sort(ns, "stage", descending=[True, False])["stage"][0])


def no_device(m: Measurements) -> Reason | None:
    """Why a rule about the device cannot judge a trace that shows none of its work; None where there is no sign of a device either."""
    if m.device.seen or (m.facts.vendor is None and m.device.name is None and not m.device.launches["launches"].sum()):
        return None
    remedy = for_framework(
        m,
        torch="record it with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
        tensorflow="record it with tf.profiler.experimental.ProfilerOptions(device_tracer_level=1)",
        jax="record it with jax.profiler.ProfileOptions().device_tracer_level = 1",
    )
    return NO_DEVICE_WORK(remedy=remedy)


def no_launches(m: Measurements, at_least: float) -> Reason | None:
    """Why gaps of the device (there is one) cannot be led back to the host: calls that were not recorded, or too few of them.

    None as well where all gaps together take less than `at_least` of the window: then no cause of theirs can matter, whichever it is.
    """
    gaps = m.device.gaps
    if share_interval(m, by_step(m, gaps["step"], gaps["end_ns"] - gaps["start_ns"]))[0] < at_least:
        return None
    share = m.coverage.kernels_with_launch
    remedy = for_framework(
        m,
        torch="record host and device: activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
        tensorflow="record with ProfilerOptions(host_tracer_level=2, device_tracer_level=1)",
        jax="record with host_tracer_level=2 and device_tracer_level=1",
        system="record with nsys profile --trace=cuda,nvtx",
    )
    if "runtime" not in m.facts.recorded or share is None:
        return NO_RUNTIME_CALLS(remedy=remedy)
    return LAUNCHES_MISSING(share=share, remedy=remedy) if share < COVERED else None


def for_framework(m: Measurements, *, torch: str, tensorflow: str, jax: str, system: str | None = None) -> str:
    """What to say to users of whoever's profiler it was; what holds for each where that is unknown."""
    advice = {"torch": torch, "tensorflow": tensorflow, "jax": jax, "system": system}
    return advice.get(m.facts.profiler or "") or f"PyTorch: {torch}; TensorFlow: {tensorflow}; JAX: {jax}"


def to_mark_steps(m: Measurements) -> str:
    """How the user marks steps, so that a trace shows them."""
    return for_framework(
        m,
        torch="call prof.step() after each update",
        tensorflow="put tf.profiler.experimental.Trace('train', step_num=step, _r=1) around each step",
        jax="put jax.profiler.StepTraceAnnotation('train', step_num=step) around each step",
    )


def no_marks(m: Measurements) -> Reason | None:
    """Why what a step has so many of cannot be told; None where the trace shows steps."""
    return NO_MARKS(remedy=to_mark_steps(m)) if m.marks.is_window else None


def one_step_only(m: Measurements) -> Reason | None:
    """Why what recurs in each step cannot be told from what happens once, as at the start; None where two steps or more are looked at."""
    if m.marks.is_window:
        return no_marks(m)
    if m.marks.is_chosen:
        return ONE_STEP_CHOSEN()
    if not m.marks.whole_steps:
        return NO_WHOLE_STEP()
    return None if m.marks.whole_steps > 1 else ONE_STEP()


def steps_seen(m: Measurements) -> Evidence:
    """The evidence row that says over how few steps all others are; a trace that marks none is measured as if it were one."""
    marked = None if m.marks.is_window else m.marks.table.height
    return Evidence(name="steps looked at", value=marked, unit="steps", where="the trace marks none" if m.marks.is_window else None)


def host_work(gap: Mapping[str, Any]) -> str | None:
    """What the host did in a row of the table `gaps` that is charged to launching: an operator or a range, and in which function.

    A call that launches names nothing: it ends the gap.
    """
    call = gap["call"]
    named = gap["operator"] or (call if call is not None and not re.match(RUNTIME_CALL, call) else None)
    return place(named, gap["where"]) if named or gap["where"] else None


def place(call: str | None, where: str | None) -> str:
    """A call and the function that it is in, in one phrase: "aten::to in load (train.py:41)"; "an unnamed call" where nothing is known."""
    return " in ".join(word for word in (call, where) if word) or "an unnamed call"


def has_stacks(m: Measurements) -> bool:
    """Whether Python functions or stacks are in the trace: to ask for them once more tells nothing new."""
    return "stacks" in m.facts.recorded or "python" in m.facts.recorded


def with_stacks(m: Measurements, wheres: Iterable[str | None]) -> str:
    """What to add to a fix where the trace does not know the user's function; nothing where it does, or where it never will."""
    known = [where for where in wheres if where is not None]
    if known and not any(map(is_function, known)):
        return f" (it is called outside of all functions of {known[0]}: put it into one, and the trace names that)"
    if known or has_stacks(m):
        return ""
    return for_framework(
        m,
        torch=" (record with with_stack=True to get its function)",
        tensorflow=" (record with ProfilerOptions(python_tracer_level=1) to get its function)",
        jax=" (record with python_tracer_level=1 to get its function)",
    )
