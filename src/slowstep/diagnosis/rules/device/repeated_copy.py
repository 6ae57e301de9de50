"""The same thing is copied to the device again in every step.

What it sees:
    Copies to the device at one place, of the same size in every step and none of the batch's own, whose exposed time, with the time for
    which the device had no work after calls that waited for them, is at least 3 % of the window, the least that a finding may
    claim. That the place is the same in every step is what the guide in seed 002 advises people to look for.
Why it costs:
    A constant that is made on the host (torch.tensor(...), a mask, positions, class weights) crosses the link in each step, and from
    pageable memory each of these small copies stops the host until the device has come as far.
How the gain is predicted:
    The steps are replayed with these copies in the first of them only.
When it is wrong:
    Only place and size are compared, never what is in it: a batch that the trace does not show to be input (made in the loop, without a
    loader), or a learning rate that changes, looks the same. One step cannot show what repeats.
What to try:
    Make it on the device (device=...), or once, before the loop: register_buffer, tf.constant outside the step, jax.device_put.
"""

from __future__ import annotations

import polars as pl

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import NO_REPEATED_COPIES
from slowstep.diagnosis.evidence.device.copy_sites import CopyTime, held, site_name, site_rows, traffic
from slowstep.diagnosis.evidence.device.run_dry import WaitsFor
from slowstep.diagnosis.evidence.profiled.marked_steps import share_of_steps, steps_seen
from slowstep.diagnosis.evidence.profiled.not_shown import needs_device, one_step_only, with_stacks
from slowstep.diagnosis.gain import predict, saved_by
from slowstep.diagnosis.replayed import Replayed
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.units import format_share

NAME = "repeated-copy"


@needs_device(NAME)
def judge(m: Measurements) -> Answer:
    """Whether copies that repeat in every step hold it."""
    copies = m.device.copies.filter(pl.col("kind") == "h2d")
    missing = one_step_only(m)
    if missing is not None:
        worth_it = share_of_steps(m, held(m, "h2d", copies, WaitsFor.COPY_TO_DEVICE).ns)[0] >= CLAIM
        return NotJudged(rule=NAME, reason=missing) if worth_it else None
    found = held(m, "h2d", copies.filter(pl.col("repeated")), WaitsFor.COPY_TO_DEVICE)
    share, low, high = share_of_steps(m, found.ns)
    if share < CLAIM:
        return None
    unknown = with_stacks(m, found.sites["where"].to_list())
    counterfactual = Replayed(NO_REPEATED_COPIES, assumes="the same data were copied only once")
    finding = Finding(
        rule=NAME,
        stage="h2d",
        title=f"the same copy to the device is made in every step and holds it for {format_share(share)} of the time ({site_name(found)})",
        share=share,
        share_low=low,
        share_high=high,
        claims=found.claims,
        evidence=_evidence(m, found, share, counterfactual),
        gain=predict(m, counterfactual),
        fixes=_fixes(m, unknown),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _evidence(m: Measurements, found: CopyTime, share: float, counterfactual: Replayed) -> tuple[Evidence, ...]:
    return (
        Evidence(name="repeated copying, and waiting for copies", value=share, unit="share of window", threshold=CLAIM),
        *site_rows(m, found),
        *traffic(m, found.copies),
        steps_seen(m),
        saved_by(m, counterfactual),
    )


def _fixes(m: Measurements, unknown: str) -> tuple[Fix, ...]:
    words = m.training.words
    return Fix(text=f"{words.advise(Remedy.COPY_ONCE)}{unknown}"), Fix(text=words.advise(Remedy.MADE_ON_DEVICE))


RULE = Rule(name=NAME, stages=("h2d", "d2h"), topics=("device", "facts", "ledger", "marks", "replay", "steps", "training"), judge=judge)
