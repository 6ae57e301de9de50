"""What making one sample consists of: read, decode, each transform, collate, transport. Pure.

The parts come from batches timed part by part on the training thread (frameworks/torch/inside/tasks/_parts.py). Reading is what calls of
files and sockets and sleeps take, and whatever else the data set itself stood still for; decoding is what calls of decoders take. Where
neither is seen, both are in what the data set does itself, and the row says so. A transform or a collate function that stands still has
that in its own row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from slowstep.calibration import loading
from slowstep.prove.bench.loader_speed import Point
from slowstep.prove.stats.figures import Figure, ratio
from slowstep.units import format_count

StageKind = Literal["read", "decode", "own", "transform", "collate", "transport"]

READING: Final = ("network", "file", "sleep")
DECODING: Final = "decode"
BASE: Final = "base"
COLLATE: Final = "collate"
# Columns of a row of parts, before those of the steps.
_SAMPLES, _WALL, _CPU, _DELAY, _OTHERS, _STEPS_STILL, _STEPS_OTHERS, _COLLATE, _STEPS = range(9)
_NS_PER_MS: Final = 1e6
# What a worker's collate may take more than the same on the training thread, because its tensors go to new files in shared memory.
SHARED_NS, SHARED_NS_PER_BYTE = loading.SHARED_FILE.value, loading.SHARED_FILE_BYTE.value


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleStage:
    """One row: ms per sample, and where it is known its interval. `left_out_ms`: how much less a sample takes without it, measured."""

    kind: StageKind
    name: str
    ms: float
    figure: Figure | None
    left_out_ms: float | None
    note: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class BuiltinCalls:
    """Ms per sample in the built-in calls of each kind, by part of the work; `top` names the one that took most of each, most first."""

    ms: dict[str, dict[str, float]]
    top: dict[str, str]

    def of(self, part: str, kinds: Sequence[str]) -> float:
        """Ms per sample of these kinds in a part."""
        return sum(self.ms.get(part, {}).get(kind, 0.0) for kind in kinds)

    def whole(self, kinds: Sequence[str]) -> float:
        """Ms per sample of these kinds in all parts but collate."""
        return sum(self.of(part, kinds) for part in self.ms if part != COLLATE)


def carried(rows: Sequence[SampleStage]) -> float | None:
    """The share of a sample's time that is transport; None where no row says it."""
    whole = sum(row.ms for row in rows)
    return next((row.ms / whole for row in rows if row.kind == "transport" and whole > 0), None)


def read_builtin_calls(parts: dict[str, Any]) -> BuiltinCalls | None:
    """The built-in calls of the parts; None where they could not be timed."""
    samples = parts["calls_samples"]
    if not samples:
        return None
    kinds = (*READING, DECODING)
    ms = {part: {kind: times[kind] / samples / _NS_PER_MS for kind in kinds} for part, times in parts["calls"].items()}
    ranked = sorted((row for times in parts["calls"].values() for row in times["names"]), key=lambda row: -row[2])
    top: dict[str, str] = {}
    for kind, name, _ in ranked:
        top.setdefault(kind, name)
    return BuiltinCalls(ms=ms, top=top)


def stages(parts: dict[str, Any] | None, transported: Point | None) -> tuple[SampleStage, ...]:
    """The rows in the order of the work; none where the parts were not timed. `transported` is the loader with workers."""
    if parts is None or not parts["rows"]:
        return ()
    rows = np.array(parts["rows"], dtype=np.float64)
    samples = rows[:, _SAMPLES]
    calls = read_builtin_calls(parts)
    found = [*_own_rows(rows, calls), *_step_rows(parts, rows, calls), _plain("collate", "collate", rows[:, _COLLATE], samples)]
    if transported is not None and (row := _transport_row(transported, rows)) is not None:
        found.append(row)
    return tuple(row for row in found if row.ms > 0)


def _own_blocked_ms(rows: NDArray[np.float64]) -> float:
    """Ms per sample in which the data set itself, beside transforms and collate, neither ran nor queued for a core, nor waited for other
    threads of the process."""
    still = np.maximum(rows[:, _WALL] - rows[:, _CPU] - rows[:, _DELAY], 0.0) - rows[:, _STEPS_STILL]
    others = np.maximum(rows[:, _OTHERS] - rows[:, _STEPS_OTHERS], 0.0)
    return float(np.maximum(still - others, 0.0).sum() / rows[:, _SAMPLES].sum() / _NS_PER_MS)


def _own_rows(rows: NDArray[np.float64], calls: BuiltinCalls | None) -> list[SampleStage]:
    """What the data set does itself, without its transforms; reading and decoding are taken from wherever they happen."""
    samples = rows[:, _SAMPLES]
    base = np.maximum(rows[:, _WALL] - rows[:, _DELAY] - rows[:, _COLLATE] - rows[:, _STEPS:].sum(axis=1), 0.0)
    own = _plain("own", "the data set itself", base, samples)
    read = calls.whole(READING) if calls else 0.0
    decode = calls.whole((DECODING,)) if calls else 0.0
    unseen = max(_own_blocked_ms(rows) - (calls.of(BASE, READING) if calls else 0.0), 0.0)
    if read + decode + unseen < 0.01 * own.ms:
        return [replace(own, note="read and decode not distinguished")]
    inside = 0.0 if calls is None else calls.of(BASE, (*READING, DECODING))
    kept = max(own.ms - inside - unseen, 0.0)
    names = calls.top if calls else {}
    note = next((name for kind, name in names.items() if kind in READING), None)
    taken = [SampleStage(kind="read", name="read", ms=read + unseen, figure=None, left_out_ms=None, note=note)]
    if decode:
        taken.append(SampleStage(kind="decode", name="decode", ms=decode, figure=None, left_out_ms=None, note=names.get(DECODING)))
    rest = None if decode else "decoding, if there is any, is in it"
    return [*taken, SampleStage(kind="own", name=own.name, ms=kept, figure=None, left_out_ms=None, note=rest)]


def _step_rows(parts: dict[str, Any], rows: NDArray[np.float64], calls: BuiltinCalls | None) -> list[SampleStage]:
    found = []
    left_out = _left_out(parts)
    for number, name in enumerate(parts["steps"]):
        inside = calls.of(str(number), (*READING, DECODING)) if calls else 0.0
        figure = ratio(rows[:, _STEPS + number] / _NS_PER_MS - inside * rows[:, _SAMPLES], rows[:, _SAMPLES])
        ms = float(rows[:, _STEPS + number].sum() / rows[:, _SAMPLES].sum() / _NS_PER_MS) - inside
        found.append(SampleStage(kind="transform", name=name, ms=ms, figure=figure, left_out_ms=left_out.get(number), note=None))
    return found


def _left_out(parts: dict[str, Any]) -> dict[int, float]:
    """By step, how many ms less a sample takes when it is left out after all that come behind it."""
    if not parts["left_out"]:
        return {}
    rows = np.array(parts["left_out"], dtype=np.float64)
    per_sample = rows[:, 1:].sum(axis=0) / rows[:, 0].sum() / _NS_PER_MS
    steps = len(parts["steps"])
    # Steps that were first called in a later batch are none that were left out then.
    return {steps - count: float(per_sample[count - 1] - per_sample[count]) for count in range(1, len(per_sample)) if count <= steps}


def _plain(kind: StageKind, name: str, ns: NDArray[np.float64], samples: NDArray[np.float64]) -> SampleStage:
    figure = ratio(ns / _NS_PER_MS, samples)
    ms = float(ns.sum() / samples.sum() / _NS_PER_MS)
    return SampleStage(kind=kind, name=name, ms=ms, figure=figure, left_out_ms=None, note=None)


def _transport_row(point: Point, rows: NDArray[np.float64]) -> SampleStage | None:
    """CPU time on the way from worker to trainer: what workers use beside making batches, what collating into shared memory takes more
    than collating does here, and what receiving takes."""
    used, made, received = point.total("process_ns"), point.total("cpu_ns"), point.total("trainer_cpu_ns")
    collated, counted = point.total("collate_cpu_ns"), point.total("batches")
    if used is None or made is None or received is None or collated is None or not counted or point.samples <= 0 or not point.workers:
        return None
    samples = point.samples / point.batches * counted
    alone, others, here = (float(rows[:, column].sum() / rows[:, _SAMPLES].sum()) * samples for column in (_CPU, _OTHERS, _COLLATE))
    most = _most_shared_ns(point) * counted
    # Busy workers and the training take more CPU time for the same work than one thread of an idle machine: by so many times.
    longer = max((made - _within(collated - here, most)) / alone, 1.0) if alone > 0 else 1.0
    shared = _within(collated - longer * here, most)
    ns = max(used - made - longer * others, 0.0) + shared + received
    note = f"CPU time, with {format_count(point.workers, 'worker')}"
    return SampleStage(kind="transport", name="transport", ms=ns / samples / _NS_PER_MS, figure=None, left_out_ms=None, note=note)


def _most_shared_ns(point: Point) -> float:
    """Ns that collating a batch into shared memory takes more at most; 0 where its bytes are not known, and nothing tells it."""
    if point.bytes_per_s is None or point.batches_per_s is None:
        return 0.0
    return SHARED_NS + SHARED_NS_PER_BYTE * point.bytes_per_s.value / point.batches_per_s.value


def _within(ns: float, most: float) -> float:
    return min(max(ns, 0.0), most)
