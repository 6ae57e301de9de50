"""The device spends its time copying within its own memory.

What it sees:
    Copies from a device to itself or to a neighbour, while no kernel of another kind ran: at least 3 % of the window, the least that a
    finding may claim; no other profiler names a threshold.
Why it costs:
    Such a copy reads and writes every byte once and computes nothing; the kernels that need the result wait for it.
How the gain is predicted:
    The steps are replayed without these copies.
When it is wrong:
    Some of them are needed: a buffer for a collective, a copy for a target network, a pipeline's hand-over to the next device. Copies
    that a framework makes by a kernel of its own (a change of layout or type) are kernels in a trace and not among these.
What to try:
    Write where the result belongs: in-place and out= variants, slices of a buffer made once in place of cat and stack, no clone() that
    nobody needs; DistributedDataParallel(gradient_as_bucket_view=True).
"""

from __future__ import annotations

from typing import Any

import polars as pl

from slowstep.analyses.events.parts import DEVICE_COPIES
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import NO_DEVICE_COPIES
from slowstep.diagnosis.evidence.device.copy_sites import traffic
from slowstep.diagnosis.evidence.profiled.host_calls import place
from slowstep.diagnosis.evidence.profiled.marked_steps import per_step, share_of_steps, steps_seen
from slowstep.diagnosis.evidence.profiled.not_shown import needs_device, with_stacks
from slowstep.diagnosis.gain import predict, saved_by
from slowstep.diagnosis.replayed import Replayed
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix
from slowstep.frameworks._remedies import Remedy
from slowstep.units import format_count, format_share

NAME = "device-to-device-copies"
KINDS = ("d2d", "p2p")


@needs_device(NAME)
def judge(m: Measurements) -> Answer:
    """Whether copies within the device take a part of the step."""
    share, low, high = share_of_steps(m, per_step(m, DEVICE_COPIES))
    if share < CLAIM:
        return None
    sites = m.device.copies.filter(pl.col("kind").is_in(KINDS)).sort("total_ns", descending=True)
    named = sites.filter(pl.col("operator").is_not_null() | pl.col("where").is_not_null()).head(1)
    worst = place(named["operator"][0], named["where"][0]) if named.height else None
    counterfactual = Replayed(NO_DEVICE_COPIES, assumes="none of these copies were needed")
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=f"the device copies within its own memory for {format_share(share)} of the time{f' ({worst})' if worst else ''}",
        share=share,
        share_low=low,
        share_high=high,
        claims=(DEVICE_COPIES,),
        evidence=(
            Evidence(name="device-to-device copies", value=share, unit="share of window", threshold=CLAIM),
            *(_row(sites, row) for row in sites.head(3).iter_rows(named=True)),
            *traffic(m, sites),
            steps_seen(m),
            saved_by(m, counterfactual),
        ),
        gain=predict(m, counterfactual),
        fixes=_fixes(m, with_stacks(m, sites["where"].to_list())),
        names_cause=worst is not None,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _row(sites: pl.DataFrame, row: dict[str, Any]) -> Evidence:
    share = row["total_ns"] / max(int(sites["total_ns"].sum()), 1)
    return Evidence(
        name=f"{row['operator'] or row['kind']}, {format_count(row['count'], 'copy', 'copies')}",
        value=share,
        unit="share of these copies",
        where=row["where"],
    )


def _fixes(m: Measurements, unknown: str) -> tuple[Fix, ...]:
    words = m.training.words
    return Fix(text=f"{words.advise(Remedy.FEWER_COPIES)}{unknown}"), Fix(text=words.advise(Remedy.SPARED_COPIES))


RULE = Rule(name=NAME, stages=("compute",), topics=("device", "facts", "ledger", "marks", "replay", "steps", "training"), judge=judge)
