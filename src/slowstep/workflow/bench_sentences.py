"""What the figures of `slowstep bench` mean, in a sentence each, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from slowstep.experiments.loader_speed import LEAST_ADDED, Point
from slowstep.experiments.overlap import CLOSE, Whole
from slowstep.report.bench_document import NextRow
from slowstep.units import format_count, format_share
from slowstep.workflow.bench_act import Asked

_NO_LOADER: Final = (
    "slowstep bench measures a training's torch DataLoader by itself, and had none to measure; "
    "slowstep run says where a step's time goes, with any loader or none"
)


def whole_sentence(whole: Whole) -> str:
    """How the halves make the whole, and whether they do."""
    if whole.how == "sum":
        text = "the training thread makes its batches itself, so loading and computing add up"
    elif whole.cores_bound:
        text = "loading and computing overlap, and together they need more cores than there are"
    else:
        text = f"loading and computing overlap, and the {whole.binds} is the slower of them"
    if whole.log_error is None:
        return text
    off = format_share(whole.log_error)
    if whole.log_error <= CLOSE:
        return f"{text}: that explains the training to {off}"
    if whole.agrees:
        return f"{text}; the training is {off} off, and the intervals are too wide to say more: give it a larger --budget"
    return f"{text}; the training itself is {off} off: something else takes time, or both hinder each other"


def next_command(
    asked: Asked,
    words: Sequence[str],
    *,
    point: Point | None,
    points: Sequence[Point],
    bend: int | None,
    whole: Whole | None,
    interrupted: bool = False,
) -> NextRow:
    """The command that helps most now: the proof of what was found, or the look at the other half."""
    command = shlex.join(words)
    if interrupted and whole is None:
        return {"command": f"slowstep bench {asked.what} {command}", "why": "it was interrupted before it was done"}
    if point is None:
        return {"command": f"slowstep run {command}", "why": _NO_LOADER}
    if whole is None:
        other = "compute" if asked.what == "data" else "data"
        return {"command": f"slowstep bench {other} {command}", "why": "one half says nothing about the whole"}
    if whole.how == "sum":
        return {
            "command": f"slowstep prove --levers workers={max(bend or 1, 1)} {command}",
            "why": "with workers, loading and computing overlap",
        }
    if whole.binds == "compute":
        return {"command": f"slowstep run --capture {command}", "why": "the compute decides: this shows what is in it"}
    gain = worker_gain(point, points, bend)
    if gain is not None and bend:
        why = f"alone, the loader is {gain:.1f} times as fast with {format_count(bend, 'worker')}"
        return {"command": f"slowstep prove --levers workers={bend} {command}", "why": why}
    if asked.what == "compute":
        return {"command": f"slowstep bench data {command}", "why": "the loader decides: this shows what is in it"}
    return {"command": f"slowstep prove {command}", "why": "the loader decides: this tries what answers it"}


def worker_gain(point: Point, points: Sequence[Point], bend: int | None) -> float | None:
    """How much faster the loader is with the workers where the curve bends; None where its own number is as good."""
    best = next((each for each in points if each.workers == bend), None)
    own = next((each for each in points if each.workers == point.workers), None)
    if best is None or own is None or best.batches_per_s is None or own.batches_per_s is None or best.workers == own.workers:
        return None
    gain = best.batches_per_s.value / own.batches_per_s.value
    return gain if gain >= 1 + LEAST_ADDED and best.batches_per_s.low > own.batches_per_s.high else None
