"""What the training thread did where a span is open on it: each instant is charged to the innermost one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slowstep.analyses.batches.producers import PART_STAGE, WaitParts
from slowstep.analyses.ledger.charge import Charged, charge
from slowstep.analyses.ledger.trainer_spans import Spans
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.parts import Part
from slowstep.timeline.intervals import Ints, containing, innermost, laid_over, union
from slowstep.timeline.spine import HostLane, KnownLanes, Labelled

# Adds ns to a part, each to the step that stands beside it.
Add = Callable[[Part, Ints, Floats], None]


@dataclass(frozen=True, slots=True)
class LaidSpans:
    """Which span is the innermost at each instant: edges, and which of the spans owns what follows each of them (-1: none does)."""

    owned: tuple[Ints, Ints]
    without_collections: tuple[Ints, Ints]  # the same as if no garbage had been collected


def lay_spans(spans: Spans, collections: int, steps: Steps) -> LaidSpans:
    """Lay spans over each other, the last `collections` of which are garbage collections: nothing lies in one of these, and those of one
    thread come one after the other.
    """
    others = len(spans.start) - collections
    without = innermost(spans.start[:others], spans.end[:others], steps.edges_ns)
    return LaidSpans(laid_over(*without, spans.start[others:], spans.end[others:], others), without)


def charge_stretches(trainer: Trainer, laid: LaidSpans, steps: Steps) -> Charged:
    """Charge every stretch between boundaries to its spans: those that are no steps, because only counted, are taken out at the end."""
    edges, owner = laid.owned
    lane = HostLane(thread=trainer.thread, named=Labelled(edges[:-1], edges[1:], owner))
    charged, _ = charge((steps.edges_ns[:-1], steps.edges_ns[1:]), KnownLanes(training=lane.thread, lanes={lane.thread: lane}))
    return charged


def charge_spans(spans: Spans, waits: WaitParts, charged: Charged, count: int) -> dict[Part, Floats]:
    """What each part holds of each of so many stretches."""
    rows: dict[Part, Floats] = {}

    def add(part: Part, at: Ints, ns: Floats) -> None:
        rows[part] = rows.get(part, np.zeros(count)) + np.bincount(at, weights=ns, minlength=count)

    _charge_named(spans, charged, add)
    _charge_waits(waits, charged, add)
    return rows


def _charge_named(spans: Spans, charged: Charged, add: Add) -> None:
    part_ids = {part: number for number, part in enumerate(dict.fromkeys(spans.part))}
    ids = np.array(list(map(part_ids.__getitem__, spans.part)) or [0])
    part_of = np.where(charged.code >= 0, ids[charged.code], -1)
    for part, number in part_ids.items():
        if part is not None:
            mine = part_of == number
            add(part, charged.step[mine], charged.length_ns[mine])


def _charge_waits(waits: WaitParts, charged: Charged, add: Add) -> None:
    """A wait's own time goes to its parts in proportion; inside a validation it has become that span's already."""
    mine = np.flatnonzero((charged.code >= 0) & (charged.code < len(waits.start_ns)))
    wait = charged.code[mine]
    whole = np.maximum(waits.parts.sum(axis=1)[wait], 1)
    for column, (kind, stage) in enumerate(PART_STAGE.items()):
        ns = waits.parts[wait, column] / whole * charged.length_ns[mine]
        if ns.any():
            add(Part(stage, kind), charged.step[mine], ns)


def named_in_bodies(spans: Spans, charged: Charged, count: int) -> Floats:
    """Per step what bodies hold of spans that somebody named, which are no part of what the ledger calls forward and the rest."""
    body = containing(*union(*spans.bodies), charged.start_ns) >= 0
    mine = body & (charged.code >= 0) & spans.named[charged.code]
    return np.bincount(charged.step[mine], weights=charged.length_ns[mine], minlength=count).astype(np.float64)
