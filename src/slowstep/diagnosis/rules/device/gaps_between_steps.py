"""The device has nothing to do between one step and the next.

What it sees:
    Gaps of the device that span the boundary of two steps, less what of them is a wait for input or follows a synchronizing call (those are
    findings of their own): host work that the trace names (callbacks, metrics, writes, ranges and functions of the script other than the
    model) or does not name. At least 5 % of the window.
    XProf draws lines at 3 and 15 % for time of this kind; a profiler makes host time up to 1.7 times as long, so 5 % in a
    trace is what 3 % is without one.
Why it costs:
    The host does all of it after the last kernel of a step was launched and before the first of the next, and the queue runs empty.
How the gain is predicted:
    The steps are replayed without host work before their first launch and after their last, waits for input and for the device kept: what
    is done once in ten steps or more costs next to nothing.
When it is wrong:
    Some of the work between two steps may be needed in every step; a trace does not show that. A gap at a boundary may be the last step's
    launches coming late rather than work between steps; then launch-bound is found as well, or instead. Where a profiler's schedule ends
    between two steps, its own work is in the gap: the interval of the share then begins at nothing.
What to try:
    Callbacks, metrics and logs every k steps; Keras: compile(steps_per_execution=16); own TensorFlow loops: several steps inside one
    tf.function, and TF_GPU_THREAD_MODE=gpu_private where tf.data's threads compete with the launching thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from slowstep.analyses.events.parts import COLUMNS, LAUNCH, is_part, part_of
from slowstep.analyses.events.places import place_text, without_folders
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import NO_WORK_BETWEEN_STEPS
from slowstep.diagnosis.evidence.profiled.host_calls import host_work, place
from slowstep.diagnosis.evidence.profiled.marked_steps import HOST_SHARE, by_step, claim_of, share_of_steps, steps_seen
from slowstep.diagnosis.evidence.profiled.not_shown import needs_device, no_launches, one_step_only
from slowstep.diagnosis.gain import predict, saved_by
from slowstep.diagnosis.replayed import Replayed
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.part_words import part_in_words
from slowstep.parts import Part, PieceKind
from slowstep.units import format_share

NAME = "gaps-between-steps"
STAGES_BETWEEN = ("compute", "output", "store")
# What the advice assumes: often enough for a curve, seldom enough to cost a tenth.
EVERY = 10


@needs_device(NAME)
def judge(m: Measurements) -> Answer:
    """Whether host work between two steps leaves the device without work."""
    missing = one_step_only(m)
    if missing is not None:
        return NotJudged(rule=NAME, reason=missing)
    gaps = m.device.gaps.with_columns(ns=pl.col("end_ns") - pl.col("start_ns"))
    gaps = gaps.filter(pl.col("between_steps") & pl.col("stage").is_in(STAGES_BETWEEN))
    share, low, high = share_of_steps(m, by_step(m, gaps["step"], gaps["ns"]))
    if share < HOST_SHARE:
        missing = no_launches(m, HOST_SHARE)
        return NotJudged(rule=NAME, reason=missing) if missing is not None else None
    parts = gaps.group_by(COLUMNS, maintain_order=True).agg(pl.col("ns").sum()).sort("ns", descending=True)
    causes = gaps.group_by(*COLUMNS, "call", "operator", "where", maintain_order=True).agg(pl.col("ns").sum()).sort("ns", descending=True)
    worst = causes.row(0, named=True)
    what = _named(worst)
    each_ms = float(np.median(gaps.group_by("gap").agg(pl.col("ns").sum())["ns"].to_numpy())) / 1e6
    counterfactual = Replayed(NO_WORK_BETWEEN_STEPS, assumes="between steps the host only asked for input and waited")
    finding = Finding(
        rule=NAME,
        stage=parts["stage"][0],
        title=f"between two steps the device is idle, {format_share(share)} of the time: {what or 'host work without a name'}",
        share=share,
        share_low=low,
        share_high=high,
        claims=_claims(m, gaps),
        evidence=_evidence(m, causes, each_ms, share, counterfactual),
        gain=predict(m, counterfactual),
        fixes=_fixes(m, what),
        names_cause=what is not None and not _said_better(m, worst),
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _evidence(m: Measurements, causes: pl.DataFrame, each_ms: float, share: float, counterfactual: Replayed) -> tuple[Evidence, ...]:
    return (
        Evidence(name="gaps between steps", value=share, unit="share of window", threshold=HOST_SHARE),
        Evidence(name="median gap", value=each_ms, unit="ms"),
        *(_row(m, row) for row in causes.head(3).iter_rows(named=True)),
        steps_seen(m),
        saved_by(m, counterfactual),
    )


def _claims(m: Measurements, gaps: pl.DataFrame) -> tuple[Part, ...]:
    """Callbacks and writes as a whole; of the time before launches what lies between steps."""
    launch = gaps.filter(is_part(LAUNCH))
    others = [part_of(row) for row in gaps.filter(~is_part(LAUNCH)).select(COLUMNS).unique(maintain_order=True).iter_rows()]
    claim = claim_of(m, LAUNCH, PieceKind.BETWEEN_STEPS, by_step(m, launch["step"], launch["ns"]))
    return (*others, *((claim,) if launch.height else ()))


def _named(cause: dict[str, Any]) -> str | None:
    """The callback, range, operator or line that holds most of the gaps; None where the trace names none."""
    part, where = _part(cause), cause["where"]
    if part == LAUNCH:
        return host_work(cause)
    # The part may be that function itself, or name it.
    return place(part_in_words(part), None if where is None or _names(part, without_folders(where)) else where)


def _part(cause: dict[str, Any]) -> Part:
    return part_of(tuple(cause[name] for name in COLUMNS))


def _names(part: Part, where: str) -> bool:
    """Whether a part is the function that a place (without folders) is in, or names it."""
    if part.place is None:
        return where in (part.name or "")
    itself = part.place if part.place.function is not None else part.place._replace(function=part.name)
    return without_folders(place_text(itself)) == where


def _said_better(m: Measurements, cause: dict[str, Any]) -> bool:
    """Whether a rule of its own is about it: writes, operators on the host, compiling."""
    compiles = cause["call"] in m.device.compilations["name"].to_list()
    return cause["stage"] == "store" or (_part(cause) == LAUNCH and (cause["operator"] is not None or compiles))


def _row(m: Measurements, cause: dict[str, Any]) -> Evidence:
    name = cause["call"] or cause["operator"] or part_in_words(_part(cause))
    return Evidence(name=f"in them: {name}", value=cause["ns"] / max(m.steps.length_ns, 1), unit="share of window", where=cause["where"])


def _fixes(m: Measurements, what: str | None) -> tuple[Fix, ...]:
    first = f"do {what} once in {EVERY} steps" if what is not None else f"do metrics, callbacks and logs once in {EVERY} steps"
    return Fix(text=first), Fix(text=m.training.words.advise(Remedy.LAUNCH_FIRST, every=EVERY))


RULE = Rule(
    name=NAME,
    stages=STAGES_BETWEEN,
    topics=("completeness", "device", "facts", "ledger", "marks", "replay", "steps", "training"),
    judge=judge,
)
