"""Copies to the device come from pageable memory, which is slow.

Everything else on the device waits for them.

What it sees:
    Copies to the device that the trace marks as pageable, whose exposed time, with the time for which the device had no work after calls
    that waited for them, is at least 3 % of the window, the least that a finding may claim; no other profiler names a threshold.
Why it costs:
    The driver first copies pageable memory into a pinned buffer of its own: that costs a half of the link's speed or more, and the call
    returns only when it is done, so neither host nor device can run ahead.
How the gain is predicted:
    The steps are replayed with these copies at the speed of the link, and the host not waiting for them.
When it is wrong:
    Small copies (some KiB) gain nothing from pinned memory. Pinning memory for a single use costs more than it spares: it pays in a
    loader, which reuses it. Pinned memory cannot be swapped, so a machine short of memory gets slower.
What to try:
    DataLoader(pin_memory=True) and .to(device, non_blocking=True): one without the other does little.
"""

from __future__ import annotations

import polars as pl

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import COPIES_PINNED
from slowstep.diagnosis.evidence.device.copy_sites import held, site_name, site_rows, traffic
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

NAME = "pageable-copy"

PINNED_NOT_SHOWN = Wording("pinned-not-traced", "the trace does not say whether copies come from pageable or pinned memory: {remedy}")


@needs_device(NAME)
def judge(m: Measurements) -> Answer:
    """Whether copies from pageable memory hold the step."""
    copies = m.device.copies.filter(pl.col("kind") == "h2d")
    found = held(m, "h2d", copies.filter(pl.col("pageable")), WaitsFor.COPY_TO_DEVICE)
    share, low, high = share_of_steps(m, found.ns)
    if share < CLAIM:
        return _unknown(m, copies)
    counterfactual = Replayed(COPIES_PINNED, assumes="the copies came from pinned memory, at the link's speed, and the host did not wait")
    finding = Finding(
        rule=NAME,
        stage="h2d",
        title=f"copies from pageable memory hold the step for {format_share(share)} of the time ({site_name(found)})",
        share=share,
        share_low=low,
        share_high=high,
        claims=found.claims,
        evidence=(
            Evidence(name="pageable copying, and waiting for copies", value=share, unit="share of window", threshold=CLAIM),
            *site_rows(m, found),
            *traffic(m, found.copies),
            steps_seen(m),
            saved_by(m, counterfactual),
        ),
        gain=predict(m, counterfactual),
        fixes=_fixes(m, with_stacks(m, found.sites["where"].to_list())),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _unknown(m: Measurements, copies: pl.DataFrame) -> Answer:
    """Where the trace does not say pageable or pinned, of copies that would matter if they were pageable."""
    maybe = held(m, "h2d", copies.filter(pl.col("pageable").fill_null(True)), WaitsFor.COPY_TO_DEVICE)
    if share_of_steps(m, maybe.ns)[0] < CLAIM:
        return None
    return NotJudged(rule=NAME, reason=PINNED_NOT_SHOWN(remedy=m.training.words.advise(Remedy.RECORD_PINNED)))


def _fixes(m: Measurements, unknown: str) -> tuple[Fix, ...]:
    words = m.training.words
    return Fix(text=f"{words.advise(Remedy.PINNED_BATCHES)}{unknown}"), Fix(text=words.advise(Remedy.PINNED_BUFFER))


RULE = Rule(name=NAME, stages=("h2d", "d2h"), topics=("device", "facts", "ledger", "marks", "replay", "steps", "training"), judge=judge)
