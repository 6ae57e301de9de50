"""Large tensors are copied from device to host while the step waits.

What it sees:
    Copies to the host of 1 MiB and more each: their exposed time, with the time for which the device had no work after calls that waited
    for them, is at least 3 % of the window, the least that a finding may claim. At 12 GB/s (PCIe 3, 16 lanes) 1 MiB
    takes 87 us: from about there on it is the bytes that cost and not the waiting.
Why it costs:
    Outputs, activations or gradients cross the link, into pageable memory at half of its speed, and nothing new is launched meanwhile.
How the gain is predicted:
    The steps are replayed without copies to the host and without the waits for them, small ones too. Where an operator of the host computes
    on what was read, and the result goes back to the device, the host still waits for what was to be copied: only the copy goes.
When it is wrong:
    A checkpoint or a validation inside the window reads back by its nature; where a range names it, its time is charged to that and not
    here. Optimizers kept in host memory (offloading) copy on purpose, to save device memory.
What to try:
    Reduce on the device first (mean, argmax, top-k) and copy the result; copy every k steps; pinned memory and non_blocking=True.
"""

from __future__ import annotations

import polars as pl

from slowstep.analyses.device.copies import LARGE_BYTES
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import NO_READBACKS
from slowstep.diagnosis.evidence.device.copy_sites import CopyTime, held, site_name, site_rows, traffic
from slowstep.diagnosis.evidence.device.run_dry import WaitsFor
from slowstep.diagnosis.evidence.profiled.marked_steps import share_of_steps, steps_seen
from slowstep.diagnosis.evidence.profiled.not_shown import needs_device, with_stacks
from slowstep.diagnosis.gain import predict, saved_by
from slowstep.diagnosis.replayed import Replayed
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.reasons import Wording
from slowstep.units import format_share

NAME = "large-readback"

SIZES_NOT_SHOWN = Wording("sizes-not-traced", "the trace does not say how large its copies to the host are: {remedy}")


@needs_device(NAME)
def judge(m: Measurements) -> Answer:
    """Whether large copies to the host hold the step."""
    copies = m.device.copies.filter(pl.col("kind") == "d2h")
    found = held(m, "d2h", copies.filter(pl.col("bytes") >= LARGE_BYTES * pl.col("count")), WaitsFor.LARGE_READ_BACK)
    share, low, high = share_of_steps(m, found.ns)
    if share < CLAIM:
        return _unknown(m, copies)
    counterfactual = Replayed(NO_READBACKS, assumes="nothing were copied to the host in the step")
    finding = Finding(
        rule=NAME,
        stage="d2h",
        title=f"copies of {_each_mb(found):,.1f} MB to the host hold the step for {format_share(share)} of the time ({site_name(found)})",
        share=share,
        share_low=low,
        share_high=high,
        claims=found.claims,
        evidence=_evidence(m, found, share, counterfactual),
        gain=predict(m, counterfactual),
        fixes=_fixes(m, with_stacks(m, found.sites["where"].to_list())),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _evidence(m: Measurements, found: CopyTime, share: float, counterfactual: Replayed) -> tuple[Evidence, ...]:
    return (
        Evidence(name="large read-backs and waits for them", value=share, unit="share of window", threshold=CLAIM),
        *site_rows(m, found),
        Evidence(name="each", value=_each_mb(found), unit="MB", threshold=LARGE_BYTES / 1e6),
        *traffic(m, found.copies),
        Evidence(name="into pageable memory", value=_pageable(found), unit="share of copies"),
        steps_seen(m),
        saved_by(m, counterfactual),
    )


def _unknown(m: Measurements, copies: pl.DataFrame) -> Answer:
    """Where the sizes of copies that would matter are not in the trace."""
    maybe = held(m, "d2h", copies.filter(pl.col("bytes").is_null()), WaitsFor.LARGE_READ_BACK)
    if share_of_steps(m, maybe.ns)[0] < CLAIM:
        return None
    return NotJudged(rule=NAME, reason=SIZES_NOT_SHOWN(remedy=m.training.words.advise(Remedy.RECORD_SIZES)))


def _each_mb(found: CopyTime) -> float:
    row = found.sites.row(0, named=True)
    return float(row["bytes"]) / float(row["count"]) / 1e6


def _pageable(found: CopyTime) -> float | None:
    known = found.copies.filter(pl.col("pageable").is_not_null())
    return float(known.filter(pl.col("pageable"))["count"].sum()) / int(known["count"].sum()) if known.height else None


def _fixes(m: Measurements, unknown: str) -> tuple[Fix, ...]:
    words = m.training.words
    return Fix(text=f"{words.advise(Remedy.SMALLER_READBACK)}{unknown}"), Fix(text=words.advise(Remedy.READBACK_ASIDE))


RULE = Rule(name=NAME, stages=("d2h",), topics=("device", "facts", "ledger", "marks", "replay", "steps", "training"), judge=judge)
