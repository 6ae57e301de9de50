"""The step waits for copies from the host to the device.

What it sees:
    Copies to the device that ran while the device computed nothing, and the time for which it had no work after a call that waited for
    such a copy: together at least 3 % of the window, the least that a finding may claim. XProf counts this time as input,
    moderate from 5 % on; a copy needs no such margin, as a profiler does not slow it down.
Why it costs:
    A copy engine works concurrently with kernels, but a copy that is asked for only when its data is needed has none to overlap with.
How the gain is predicted:
    The steps are replayed with the copies during the kernels before them, as far as these reach.
When it is wrong:
    A step whose kernels take less time than the copies is bound by the link: then fewer bytes help, not overlap. The first copy of a
    window has nothing before it.
What to try:
    Copy the next batch while the device works on this one: pinned memory, non_blocking=True and a stream of its own; tf.data:
    prefetch_to_device; JAX: device_put one batch ahead. Copy uint8 and widen on the device. Where the copies bring parameters that are
    kept on the host (FSDP, DeepSpeed): those of the next layer ahead, or fewer of them offloaded.
"""

from __future__ import annotations

import polars as pl

from slowstep.analyses.events.parts import KERNELS
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import COPIES_OVERLAPPED
from slowstep.diagnosis.evidence.device.copy_sites import CopyTime, brings_parameters, held, site_name, site_rows, traffic
from slowstep.diagnosis.evidence.device.run_dry import WaitsFor
from slowstep.diagnosis.evidence.profiled.marked_steps import share_of_steps, steps_seen
from slowstep.diagnosis.evidence.profiled.not_shown import needs_device
from slowstep.diagnosis.gain import predict, saved_by
from slowstep.diagnosis.replayed import Replayed
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix
from slowstep.frameworks._remedies import Remedy
from slowstep.units import format_share

NAME = "exposed-copy"
PARAMETERS_STAY = "copy less: keep parameters and states on the device instead of offloading them, or offload a part of them only"


@needs_device(NAME)
def judge(m: Measurements) -> Answer:
    """Whether copies to the device hold the step."""
    found = held(m, "h2d", m.device.copies.filter(pl.col("kind") == "h2d"), WaitsFor.COPY_TO_DEVICE)
    share, low, high = share_of_steps(m, found.ns)
    if share < CLAIM:
        return None
    counterfactual = Replayed(COPIES_OVERLAPPED, assumes="copies overlapped with the kernels before them")
    finding = Finding(
        rule=NAME,
        stage="h2d",
        title=f"copies to the device that nothing hides take {format_share(share)} of the time ({site_name(found)})",
        share=share,
        share_low=low,
        share_high=high,
        claims=found.claims,
        evidence=_evidence(m, found, share, counterfactual),
        gain=predict(m, counterfactual),
        fixes=_fixes(m, found),
    )
    # That copies are exposed is what happens, not why: a rule that knows why (pageable, repeated) leads where it claims the same.
    return Judged(finding=finding, counterfactual=counterfactual)


def _evidence(m: Measurements, found: CopyTime, share: float, counterfactual: Replayed) -> tuple[Evidence, ...]:
    return (
        Evidence(name="copying, and waiting for copies", value=share, unit="share of window", threshold=CLAIM),
        Evidence(name="of it, while copying", value=float(found.exposed_ns.sum()) / max(m.steps.length_ns, 1), unit="share of window"),
        *site_rows(m, found),
        *traffic(m, found.copies),
        Evidence(name="the host waits for", value=_blocking(found), unit="share of copies"),
        Evidence(name="copies take", value=_times_kernels(m, found), unit="of the kernels' time", threshold=1.0),
        steps_seen(m),
        saved_by(m, counterfactual),
    )


def _blocking(found: CopyTime) -> float:
    return float(found.copies.filter(pl.col("blocking"))["count"].sum()) / max(int(found.copies["count"].sum()), 1)


def _times_kernels(m: Measurements, found: CopyTime) -> float | None:
    """From 1 on the link takes longer than the kernels: then no overlap can hide all of it."""
    kernels_ns = m.ledger.share_of(KERNELS) * m.steps.length_ns
    return float(found.copies["total_ns"].sum()) / kernels_ns if kernels_ns else None


def _fixes(m: Measurements, found: CopyTime) -> tuple[Fix, ...]:
    words = m.training.words
    if brings_parameters(found):
        return (Fix(text=words.advise(Remedy.COPY_NEXT_LAYER)), Fix(text=PARAMETERS_STAY))
    less = "copy less: the copies take longer than the kernels, so overlap hides a part only; keep on the device what steps need again"
    bound = (_times_kernels(m, found) or 0.0) >= 1.0
    fixes = (Fix(text=words.advise(Remedy.COPY_NEXT_BATCH)), Fix(text=words.advise(Remedy.COPY_NARROW)))
    return (*fixes, *((Fix(text=less),) if bound else ()))


RULE = Rule(name=NAME, stages=("h2d",), topics=("device", "facts", "ledger", "marks", "replay", "steps", "training"), judge=judge)
