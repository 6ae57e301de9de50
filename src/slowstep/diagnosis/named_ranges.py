"""What somebody has named in a trace, beside the model, judged as a callback is in a run."""

from __future__ import annotations

import polars as pl

from slowstep.analyses.trace.measured import TraceMeasurements
from slowstep.analyses.trace.parts import VALIDATION
from slowstep.diagnosis.host_side import shortened
from slowstep.diagnosis.rule import CLAIM, Answer, Judged
from slowstep.diagnosis.trace_side import per_step, share_interval, steps_seen
from slowstep.findings import Evidence, Finding, Fix


def judge_ranges(m: TraceMeasurements, name: str) -> Answer:
    """Whether one named range beside the model holds the training thread; with a device `gaps-between-steps` says what that costs."""
    if m.has_device:
        return None
    output = m.table("ledger").filter((pl.col("stage") == "output") & (pl.col("part") != VALIDATION))
    if output.is_empty():
        return None
    part = str(output.group_by("part").agg(pl.col("ns").sum()).sort("ns", "part", descending=[True, False])["part"][0])
    removed = per_step(m, "output", part)
    share, low, high = share_interval(m, removed)
    if share < CLAIM:
        return None
    finding = Finding(
        rule=name,
        stage="output",
        title=f"{part} runs on the training thread beside the model and takes {share:.0%} of the time",
        share=share,
        share_low=low,
        share_high=high,
        claims=(part,),
        evidence=(
            Evidence(name="range", value=part, unit=""),
            Evidence(name="beside the model", value=share, unit="share of window", threshold=CLAIM),
            Evidence(name="removed per step", value=float(removed.mean()) / 1e6, unit="ms"),
            steps_seen(m),
        ),
        gain=shortened(m, removed, f"{part} takes no time on the training thread"),
        fixes=(
            Fix(text=f"call {part} every k steps, or hand its work to a background thread or process"),
            Fix(text=f"do less in {part}: fewer images, smaller arrays, no read-back"),
        ),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=None)
