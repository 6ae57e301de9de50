"""What each stage of an input pipeline costs: by the speed of all stages up to it, beside that of those before it. Pure.

Stages that run beside each other hide in the slowest of them: what a stage adds is how much less a sample takes without it and all that
follow, not what its own threads spend; that is in the CPU time. Speeds are compared between the edges of epochs, in the same turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from slowstep.prove.bench.loader_speed import Point, make_point
from slowstep.prove.stats.figures import Figure, combined, inverse, scaled
from slowstep.record.experiment.loader_reading import AUTOTUNE

# They give an element for each that they take; `Zip` beside one that only counts.
_ONE_TO_ONE: Final = ("Map", "ParallelMap", "Shuffle", "Cache", "Zip", "Scan", "Snapshot")
UNCOUNTED: Final = "how many of its elements make a sample is unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class StageCost:
    """A stage: `samples_per_s` of all up to it, and what it adds to that, per sample: time, and CPU time of all threads.

    `stage` is how notes describe it. `start_s` is the time to a first element, `samples_per_element` how many samples
    of a batch one of its elements makes. `reason`: why a speed is missing.
    """

    stage: dict[str, Any]
    samples_per_s: Figure | None
    added_ms: Figure | None
    cpu_ms: float | None
    added_cpu_ms: float | None
    start_s: float | None
    samples_per_element: float | None
    reason: str | None


def stage_costs(stages: Sequence[dict[str, Any]], notes: Sequence[dict[str, Any]]) -> tuple[StageCost, ...]:
    """From the reader to the last stage; none where the pipeline was not cut. `notes` are those of the task."""
    if not any(note["part"] == "prefix" for note in notes):
        return ()
    readings = [_readings(number, len(stages), notes) for number in range(len(stages))]
    points = [_point(found) for found in readings]
    samples = _samples_per_element(stages, points, readings)
    found = list[StageCost]()
    for stage, point, factor in zip(stages, points, samples, strict=True):
        found.append(_cost(stage, point, factor, found[-1] if found else None))
    return tuple(found)


@dataclass(frozen=True, kw_only=True, slots=True)
class ParallelCallsPoint:
    """All stages up to a map that makes so many calls at once, None: as many as the framework chooses. `reason`: why a speed is missing."""

    calls: int | None
    samples_per_s: Figure | None
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ParallelCallsCurve:
    """The map with the number `stage` with other numbers of calls at once. `own` is the script's, None where the framework chooses."""

    stage: int
    own: int | None
    points: tuple[ParallelCallsPoint, ...]


def calls_curve(stages: Sequence[dict[str, Any]], notes: Sequence[dict[str, Any]], costs: Sequence[StageCost]) -> ParallelCallsCurve | None:
    """The curve of the map that was tried; None where none was."""
    tried = [note for note in notes if note["part"] == "calls"]
    if not tried:
        return None
    number, own = tried[0]["stage"], stages[tried[0]["stage"]]["calls"]
    factor = costs[number].samples_per_element
    found = []
    # As they are tried: what the framework chooses comes last.
    for calls in dict.fromkeys(note["calls"] for note in tried):
        readings = [note for note in tried if note["calls"] == calls]
        point = _point([each for each in readings if each["rows"]] or readings[:1])
        rate = None if factor is None or point.batches_per_s is None else scaled(point.batches_per_s, factor)
        found.append(ParallelCallsPoint(calls=_known_calls(calls), samples_per_s=rate, reason=point.reason))
    return ParallelCallsCurve(stage=number, own=_known_calls(own), points=tuple(found))


def _known_calls(calls: int | None) -> int | None:
    return None if calls == AUTOTUNE else calls


def dearest(costs: Sequence[StageCost]) -> int | None:
    """The number of the stage that surely adds something, and most; None where none does.

    Stages after others make no sample come sooner, but for what lets these work beside each other: as much as some seem to, as much may be
    chance where others seem to add something.
    """
    known = [(number, cost.added_ms) for number, cost in enumerate(costs) if cost.added_ms is not None]
    chance_ms = max((-added.value for _, added in known), default=0.0)
    sure = [(added.value, number) for number, added in known if added.low > max(chance_ms, 0.0)]
    return max(sure)[1] if sure else None


def _readings(number: int, count: int, notes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the stages up to one, in turns with the others: the first of the whole is of another time, and stands where it is alone."""
    part = [note for note in notes if note["part"] == ("prefix" if number < count - 1 else "drain")]
    mine = [note for note in part if note.get("stage", number) == number]
    # Of one for which there was no time the other turn stands.
    return [note for note in mine if note["turn"] and note["rows"]] or mine[:1]


def _point(readings: Sequence[dict[str, Any]]) -> Point:
    """Their speed between the edges of epochs; of epochs that are nothing but edges, as of a list of one file, with these."""
    between = make_point(0, [each | {"edges": []} for each in readings])
    return make_point(0, readings) if between.batches_per_s is None else between


def _samples_per_element(
    stages: Sequence[dict[str, Any]], points: Sequence[Point], readings: Sequence[list[dict[str, Any]]]
) -> list[float | None]:
    """How many samples of a batch one element of each stage makes, from the last stage back to the reader."""
    last = points[-1]
    found: list[float | None] = [last.samples / last.batches if last.samples > 0 else None]
    for number in range(len(stages) - 1, 0, -1):
        taken, after = _inputs(stages[number], points[number], readings[number]), found[0]
        found.insert(0, after / taken if after is not None and taken else None)
    return found


def _inputs(stage: dict[str, Any], point: Point, readings: Sequence[dict[str, Any]]) -> float | None:
    """How many elements a stage takes for each that it gives."""
    if stage["kind"] in _ONE_TO_ONE:
        return 1.0
    if stage["makes_batches"]:
        return point.samples / point.batches if point.samples > 0 else None
    counted = [taken for each in readings if (taken := each.get("inputs_per_element"))]
    return float(np.median(counted)) if counted else None


def _cost(stage: dict[str, Any], point: Point, factor: float | None, before: StageCost | None) -> StageCost:
    rate = None if factor is None or point.batches_per_s is None else scaled(point.batches_per_s, factor)
    process_ns, elements = point.total("process_ns"), point.total("batches")
    cpu_ms = process_ns / elements / factor / 1e6 if process_ns is not None and elements and factor else None
    return StageCost(
        stage=stage,
        samples_per_s=rate,
        added_ms=_added(rate, before),
        cpu_ms=cpu_ms,
        added_cpu_ms=cpu_ms if before is None else None if cpu_ms is None or before.cpu_ms is None else cpu_ms - before.cpu_ms,
        start_s=point.start_s,
        samples_per_element=factor,
        reason=UNCOUNTED if factor is None and point.batches_per_s is not None else point.reason,
    )


def _added(rate: Figure | None, before: StageCost | None) -> Figure | None:
    if rate is None or (before is not None and before.samples_per_s is None):
        return None
    whole = inverse(rate, 1e3)
    return whole if before is None or before.samples_per_s is None else combined(np.subtract, whole, inverse(before.samples_per_s, 1e3))
