"""Operators compute on the host while the device has nothing to do.

What it sees:
    Gaps of the device in which the launching thread stood in an operator that computed on the host: at least 5 % of the window. XProf shows
    the share of operators on the host without a threshold and says to keep it very small; 5 % in a trace is what 3 %, the least that a
    finding may claim, is without a profiler, which makes the host's time up to 1.7 times as long.
Why it costs:
    The device waits for the result, and the data may cross the link twice. The host does in milliseconds what the device does in
    microseconds, where there is enough of it.
How the gain is predicted:
    The steps are replayed with these operators on the device.
When it is wrong:
    Operators on a handful of numbers (a learning rate, a random seed) are as fast on the host: what costs there is the waiting, not the
    place. An operator that exists for the host only cannot be moved. Times of the host are longer under a profiler.
What to try:
    Make tensors on the device (device=...), move the data before the operator, or find what put the operator on the host.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from slowstep.analyses.device.operators import mostly_on_host
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import HOST_OPERATIONS_ON_DEVICE
from slowstep.diagnosis.evidence.device.kernel_side import gaps_share
from slowstep.diagnosis.evidence.profiled.host_calls import place
from slowstep.diagnosis.evidence.profiled.marked_steps import HOST_SHARE, by_step, claims_of, largest_stage, share_of_steps, steps_seen
from slowstep.diagnosis.evidence.profiled.not_shown import needs_device, no_launches, with_stacks
from slowstep.diagnosis.gain import predict, saved_by
from slowstep.diagnosis.replayed import Replayed
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import PieceKind
from slowstep.reasons import Reason, Wording
from slowstep.units import format_share

NAME = "operation-on-host"
STAGES = ("compute", "d2h")

PLACES_NOT_SHOWN = Wording("places-not-traced", "the trace does not show where operators ran: {remedy}")


@needs_device(NAME)
def judge(m: Measurements) -> Answer:
    """Whether operators on the host keep the device waiting."""
    gaps = _gaps_on_host(m)
    share, low, high = share_of_steps(m, by_step(m, gaps["step"], gaps["ns"]))
    if share < HOST_SHARE:
        missing = no_launches(m, HOST_SHARE) or _no_operators(m)
        return NotJudged(rule=NAME, reason=missing) if missing is not None else None
    sites = gaps.group_by("operator", "where", maintain_order=True).agg(pl.col("ns").sum()).sort("ns", descending=True)
    worst = place(sites["operator"][0], sites["where"][0])
    counterfactual = Replayed(HOST_OPERATIONS_ON_DEVICE, assumes="these operators ran on the device")
    finding = Finding(
        rule=NAME,
        stage=largest_stage(gaps),
        title=f"{worst} computes on the host, and the device waits for it: {format_share(share)} of the time",
        opens_with_name=True,
        share=share,
        share_low=low,
        share_high=high,
        claims=claims_of(m, gaps, PieceKind.HOST_OPERATIONS),
        evidence=(
            Evidence(name="device idle, operators on the host", value=share, unit="share of window", threshold=HOST_SHARE),
            *(_row(m, site) for site in sites.head(3).iter_rows(named=True)),
            Evidence(name="operators on the host", value=_share_of_operators(m), unit="share of operators"),
            steps_seen(m),
            saved_by(m, counterfactual),
        ),
        gain=predict(m, counterfactual),
        fixes=_fixes(m, worst, with_stacks(m, sites["where"].to_list())),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _gaps_on_host(m: Measurements) -> pl.DataFrame:
    """The gaps, with their length `ns`, in which an operator that computes on the host held longest."""
    sites = mostly_on_host(m.device.operators, "name", "where").rename({"name": "operator"})
    gaps = m.device.gaps.filter(pl.col("stage").is_in(STAGES)).with_columns(ns=pl.col("end_ns") - pl.col("start_ns"))
    return gaps.join(sites, on=["operator", "where"], how="semi", nulls_equal=True)


def _no_operators(m: Measurements) -> Reason | None:
    operators = m.device.operators
    if operators["on_host"].is_not_null().any() or gaps_share(m) < HOST_SHARE:
        return None
    return PLACES_NOT_SHOWN(remedy=m.training.words.advise(Remedy.RECORD_PLACES))


def _share_of_operators(m: Measurements) -> float | None:
    placed = m.device.placement
    total = int(placed["operators"].sum())
    return int(placed.filter(pl.col("place") == "host")["operators"].sum()) / total if total else None


def _row(m: Measurements, site: dict[str, Any]) -> Evidence:
    return Evidence(name=site["operator"], value=site["ns"] / max(m.steps.length_ns, 1), unit="share of window", where=site["where"])


def _fixes(m: Measurements, worst: str, unknown: str) -> tuple[Fix, ...]:
    words = m.training.words
    return Fix(text=f"{words.advise(Remedy.ON_DEVICE, operator=worst)}{unknown}"), Fix(text=words.advise(Remedy.DATA_ASIDE))


RULE = Rule(
    name=NAME, stages=STAGES, topics=("completeness", "device", "facts", "ledger", "marks", "replay", "steps", "training"), judge=judge
)
