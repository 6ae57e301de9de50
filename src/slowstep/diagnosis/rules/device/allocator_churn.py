"""Device memory is allocated and freed inside the steps.

What it sees:
    cudaMalloc, cudaFree, cudaHostAlloc and their like inside steps, with the device having nothing to do while they run or after them: at
    least 3 % of the window, the least that a finding may claim; no other profiler names a threshold. Two steps or more must be looked at:
    the first call of a library allocates once, and in one step, or in a trace that marks none, that looks the same.
Why it costs:
    cudaFree waits until all work launched before is done, and cudaMalloc takes 0.1 to several ms. The framework's allocator keeps what it
    once had, so that a training whose shapes repeat needs none of these calls after its first steps.
How the gain is predicted:
    The steps are replayed without these calls.
When it is wrong:
    In the first steps, and after a validation with other shapes, the allocator must still grow: a trace that begins there shows
    calls that later steps do not have. Where one step of several has them all, the interval of the share begins at nothing. Memory that
    is really too small for the model is freed and asked for again whatever is set.
What to try:
    Segments that can grow, the same shapes in every step, no empty_cache() in the loop.
"""

from __future__ import annotations

import polars as pl

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import NO_ALLOCATOR_CALLS
from slowstep.diagnosis.evidence.profiled.host_calls import place
from slowstep.diagnosis.evidence.profiled.marked_steps import by_step, claims_of, largest_stage, share_of_steps, steps_seen
from slowstep.diagnosis.evidence.profiled.not_shown import needs_device, no_launches, one_step_only, with_stacks
from slowstep.diagnosis.gain import predict, saved_by
from slowstep.diagnosis.replayed import Replayed
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import PieceKind
from slowstep.units import format_share

NAME = "allocator-churn"
STAGES = ("compute", "d2h")
# CUDA's and ROCm's calls that ask for memory or give it back; those of a memory pool (Async) neither wait nor ask the system.
ALLOCATES = r"^(cuda|cu|hip)(Ext|Mem|Host)*(Malloc|Alloc|Free|Create|Map|Unmap|Release)"
ASYNC = r"Async"
FREES = r"Free|Unmap|Release"


@needs_device(NAME)
def judge(m: Measurements) -> Answer:
    """Whether allocating device memory holds the steps."""
    call = pl.col("call").fill_null("")
    gaps = m.device.gaps.filter(pl.col("stage").is_in(STAGES) & call.str.contains(ALLOCATES) & ~call.str.contains(ASYNC))
    gaps = gaps.with_columns(ns=pl.col("end_ns") - pl.col("start_ns"))
    share, low, high = share_of_steps(m, by_step(m, gaps["step"], gaps["ns"]))
    if share < CLAIM:
        missing = no_launches(m, CLAIM)
        return NotJudged(rule=NAME, reason=missing) if missing is not None else None
    missing = one_step_only(m)
    if missing is not None:
        return NotJudged(rule=NAME, reason=missing)
    sites = gaps.group_by("call", "operator", "where", maintain_order=True).agg(pl.col("ns").sum()).sort("ns", descending=True)
    worst = place(sites["call"][0], sites["where"][0] or sites["operator"][0])
    counterfactual = Replayed(NO_ALLOCATOR_CALLS, assumes="the allocator's cache served every step")
    finding = Finding(
        rule=NAME,
        stage=largest_stage(gaps),
        title=f"device memory is allocated and freed inside the steps ({worst}) while the device waits: {format_share(share)} of the time",
        share=share,
        share_low=low,
        share_high=high,
        claims=claims_of(m, gaps, PieceKind.ALLOCATOR_CALLS),
        evidence=_evidence(m, sites, worst, share, counterfactual),
        gain=predict(m, counterfactual),
        fixes=_fixes(m, bool(gaps["call"].str.contains(FREES).any()), with_stacks(m, sites["where"].to_list())),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _evidence(m: Measurements, sites: pl.DataFrame, worst: str, share: float, counterfactual: Replayed) -> tuple[Evidence, ...]:
    return (
        Evidence(name="device idle for allocator calls", value=share, unit="share of window", threshold=CLAIM, where=worst),
        *_largest_sites(m, sites),
        *_calls(m),
        steps_seen(m),
        saved_by(m, counterfactual),
    )


def _host_ms(memory: pl.DataFrame, steps: int) -> float | None:
    return float(memory["allocator_ns"].sum()) / 1e6 / steps if memory.height else None


def _held_gb(memory: pl.DataFrame) -> float | None:
    held = memory.filter(pl.col("device") >= 0)["peak_reserved_bytes"].drop_nulls().to_list()
    return max(held) / 1e9 if held else None


def _fixes(m: Measurements, frees: bool, unknown: str) -> tuple[Fix, ...]:
    words = m.training.words
    fixes = (Fix(text=f"{words.advise(Remedy.GROWING_MEMORY)}{unknown}"), Fix(text=words.advise(Remedy.STEADY_MEMORY)))
    return (*fixes, *((Fix(text=words.advise(Remedy.NO_EMPTYING)),) if frees else ()))


def _largest_sites(m: Measurements, sites: pl.DataFrame) -> tuple[Evidence, ...]:
    """The share that is idle for each of the calls with most of it."""
    return tuple(
        Evidence(name=row["call"], value=row["ns"] / m.steps.length_ns, unit="share of window", where=row["where"] or row["operator"])
        for row in sites.head(3).iter_rows(named=True)
    )


def _calls(m: Measurements) -> tuple[Evidence, ...]:
    """What allocating took of the host, whether the device was idle for it or not."""
    memory, steps = m.device.memory, max(m.marks.table.height, 1)
    calls = int(memory["allocator_calls"].sum()) / steps if memory.height else None
    return (
        Evidence(name="allocator calls", value=calls, unit="per step"),
        Evidence(name="host time in them", value=_host_ms(memory, steps), unit="ms per step"),
        Evidence(name="most memory held", value=_held_gb(memory), unit="GB"),
    )


RULE = Rule(
    name=NAME, stages=STAGES, topics=("completeness", "device", "facts", "ledger", "marks", "replay", "steps", "training"), judge=judge
)
