"""What somebody has named in a trace, beside the model, judged as a callback is in a run."""

from __future__ import annotations

import polars as pl

from slowstep.analyses.trace.measured import TraceMeasurements
from slowstep.analyses.trace.parts import VALIDATION
from slowstep.analyses.trace.scenarios import NO_CALLBACKS
from slowstep.diagnosis.gain import unknown_gain
from slowstep.diagnosis.host_side import shortened
from slowstep.diagnosis.rule import CLAIM, Answer, Judged
from slowstep.diagnosis.trace_gain import removed_ms, replayed_gain
from slowstep.diagnosis.trace_side import HOST_SHARE, by_step, per_step, share_interval, steps_seen
from slowstep.findings import Evidence, Finding, Fix, Gain

MOST = 0.5
# What the replay takes away besides is under a tenth of it.
NEARLY_ALL = 0.9


def judge_ranges(m: TraceMeasurements, name: str) -> Answer:
    """Whether named ranges beside the model hold the training thread, and with a device keep it idle.

    With a device only those inside steps: `gaps-between-steps` says what the others cost.
    """
    return _inside_steps(m, name) if m.has_device else _without_device(m, name)


def _without_device(m: TraceMeasurements, name: str) -> Answer:
    output = m.table("ledger").filter((pl.col("stage") == "output") & (pl.col("part") != VALIDATION))
    if output.is_empty():
        return None
    part = _largest(output)
    removed = per_step(m, "output", part)
    share = share_interval(m, removed)
    if share[0] < CLAIM:
        return None
    title = f"{part} runs on the training thread beside the model and takes {share[0]:.0%} of the time"
    gain = shortened(m, removed, f"{part} takes no time on the training thread")
    return _judged(name, part, (part,), share, (*_held(part, share[0], CLAIM, float(removed.mean()) / 1e6), steps_seen(m)), title, gain)


def _inside_steps(m: TraceMeasurements, name: str) -> Answer:
    """Those ranges are claimed that lie inside steps for the most part. The replay takes all of output away: where that is more, the gain
    of these alone is not known.
    """
    output = m.table("gaps").filter(pl.col("stage") == "output").with_columns(ns=pl.col("end_ns") - pl.col("start_ns"))
    within = pl.when(pl.col("between_steps")).then(0).otherwise(pl.col("ns")).sum().over("part")
    gaps = output.filter(within >= MOST * pl.col("ns").sum().over("part"))
    share = share_interval(m, by_step(m, gaps["step"], gaps["ns"]))
    if share[0] < HOST_SHARE:
        return None
    part, parts = _largest(gaps), tuple(gaps["part"].unique(maintain_order=True).to_list())
    title = f"{part} holds the training thread inside the steps, and the device has nothing to do: {share[0]:.0%} of the time"
    assumes = "what somebody has named beside the model takes no time on the training thread"
    is_all = float(gaps["ns"].sum()) >= NEARLY_ALL * float(output["ns"].sum())
    gain = replayed_gain(m, NO_CALLBACKS, assumes) if is_all else unknown_gain(assumes)
    evidence = (*_held(part, share[0], HOST_SHARE, removed_ms(m, NO_CALLBACKS)), steps_seen(m))
    return _judged(name, part, parts, share, evidence, title, gain)


def _held(part: str, share: float, threshold: float, removed: float | None) -> tuple[Evidence, ...]:
    return (
        Evidence(name="range", value=part, unit=""),
        Evidence(name="beside the model", value=share, unit="share of window", threshold=threshold),
        Evidence(name="removed per step", value=removed, unit="ms"),
    )


def _largest(rows: pl.DataFrame) -> str:
    return str(rows.group_by("part").agg(pl.col("ns").sum()).sort("ns", "part", descending=[True, False])["part"][0])


def _judged(
    name: str,
    part: str,
    claims: tuple[str, ...],
    share: tuple[float, float, float],
    evidence: tuple[Evidence, ...],
    title: str,
    gain: Gain,
) -> Judged:
    finding = Finding(
        rule=name,
        stage="output",
        title=title,
        share=share[0],
        share_low=share[1],
        share_high=share[2],
        claims=claims,
        evidence=evidence,
        gain=gain,
        fixes=(
            Fix(text=f"call {part} every k steps, or hand its work to a background thread or process"),
            Fix(text=f"do less in {part}: fewer images, smaller arrays, no read-back"),
        ),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=None)
