"""Calls that wait for the device make it run dry.

What it sees:
    Host calls that return only when the device has done its work (synchronize, a read-back now and then, a copy without Async), and after
    which the device had nothing to do until the next launch: together at least 3 % of the window, the least that a finding may claim; no
    other profiler names a threshold. Read-backs in every step, large ones, waits for copies to the device and calls of the allocator are
    rules of their own and left out.
Why it costs:
    The host launches ahead of the device; that hides what launching takes. A call that waits empties the queue, and the device then
    idles until the host has come back and launched again.
How the gain is predicted:
    The steps are replayed without the waiting of these calls; those without which a step could not go on stay.
When it is wrong:
    A profiler waits for the device itself where its schedule ends: a call in one step of many, whose share then has an interval that begins
    at nothing. Benchmarks synchronize on purpose, to measure. What the host needs the result for (a branch on it) cannot simply go.
What to try:
    Take torch.cuda.synchronize() out, measure with events; keep results on the device until a later step; nonzero(), masks as indices
    and torch.unique wait for their size: torch.where, or sizes that are known ahead.
"""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import NO_SYNCHRONIZATION
from slowstep.diagnosis.evidence.device.run_dry import RunDry, WaitsFor, in_every_step, run_dries, together_ns
from slowstep.diagnosis.evidence.profiled.marked_steps import share_of_steps, steps_seen
from slowstep.diagnosis.evidence.profiled.not_shown import needs_device, no_launches, with_stacks
from slowstep.diagnosis.gain import predict, saved_by
from slowstep.diagnosis.replayed import Replayed
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.units import format_count, format_share

NAME = "host-sync"


@needs_device(NAME)
def judge(m: Measurements) -> Answer:
    """Whether the device idles after calls that waited for it."""
    found = [
        one
        for one in run_dries(m)
        if one.waits_for is WaitsFor.OTHER or (one.waits_for is WaitsFor.READ_BACK and not in_every_step(m, one))
    ]
    share, low, high = share_of_steps(m, together_ns(m, found))
    if share < CLAIM:
        missing = no_launches(m, CLAIM)
        return NotJudged(rule=NAME, reason=missing) if missing is not None else None
    worst = found[0]
    others = f" and {len(found) - 1} more" if len(found) > 1 else ""
    counterfactual = Replayed(NO_SYNCHRONIZATION, assumes="the host went on without waiting for the device")
    finding = Finding(
        rule=NAME,
        stage="d2h",
        title=f"{worst.named}{others} waits for the device, which is then idle for {format_share(share)} of the time",
        opens_with_name=True,
        share=share,
        share_low=low,
        share_high=high,
        claims=tuple(one.part for one in found),
        evidence=_evidence(m, found, share, counterfactual),
        gain=predict(m, counterfactual),
        fixes=_fixes(m, found),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _evidence(m: Measurements, found: list[RunDry], share: float, counterfactual: Replayed) -> tuple[Evidence, ...]:
    return (
        Evidence(name="device idle after such calls", value=share, unit="share of window", threshold=CLAIM),
        *(_row(m, one) for one in found[:3]),
        Evidence(name="host time inside them", value=sum(one.wait_ns for one in found) / 1e6, unit="ms in all"),
        steps_seen(m),
        saved_by(m, counterfactual),
    )


def _row(m: Measurements, one: RunDry) -> Evidence:
    share = float(one.ns.sum()) / max(m.steps.length_ns, 1)
    name = f"{one.call} in {one.operator}" if one.operator else one.call
    return Evidence(
        name=f"{name}, {format_count(one.count, 'call')} in {format_count(one.steps, 'step')}",
        value=share,
        unit="share of window",
        where=one.where,
    )


def _fixes(m: Measurements, found: list[RunDry]) -> tuple[Fix, ...]:
    unknown = with_stacks(m, [one.where for one in found])
    words = m.training.words
    return Fix(text=f"{words.advise(Remedy.NO_SYNC)}{unknown}"), Fix(text=words.advise(Remedy.KNOWN_SIZES))


RULE = Rule(name=NAME, stages=("d2h",), topics=("completeness", "device", "facts", "marks", "replay", "steps", "training"), judge=judge)
