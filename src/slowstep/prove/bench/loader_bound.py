"""What a loader is bound by: computing, storage, the network, the way from workers to the training, or their start. Pure.

Every threshold is one half, as in the I/O rule of SageMaker's debugger (an I/O bottleneck where I/O wait is over 50 %): what takes more
than half of the time is the only thing whose removal can double the speed (Amdahl). The interval of a share must lie above it, else the
evidence is called mixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from slowstep.prove.bench.loader_curve import beside_others, gain_without_workers
from slowstep.prove.bench.loader_speed import Point, page_cache
from slowstep.prove.bench.loader_stages import READING, BuiltinCalls
from slowstep.prove.stats.figures import FEWEST_BLOCKS, Figure, ratio
from slowstep.units import format_count, format_ratio, format_share

BoundKind = Literal["cpu", "storage", "network", "blocked", "transport", "start", "undetermined"]

HALF: Final = 0.5
HALF_FROM: Final = "SageMaker's I/O rule: over half of the time"
# SageMaker calls a core busy from 90 % on (its CPU bottleneck rule).
BUSY: Final = 0.9
BUSY_CORE_SOURCE: Final = "SageMaker's CPU rule: a core is busy from 90 %"
# One in ten bytes from storage: under it the page cache has answered nine reads of ten, and storage explains no half of the time.
FROM_STORAGE: Final = 0.1
# Less waiting for a core does not explain why fewer cores are busy than compute.
MUCH_QUEUEING: Final = 1 - BUSY
STORAGE_FROM: Final = "own choice: under a tenth the page cache answers nine reads of ten"


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One piece of evidence: a value, what it is held against, and where that comes from."""

    name: str
    value: float | str | None
    unit: str
    threshold: float | None = None
    source: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """The verdict in one word and one sentence, with all that it was drawn from."""

    kind: BoundKind
    sentence: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Shares:
    """Shares of the producers' time, and of the whole period. None is unknown."""

    making: Figure | None  # of the producers' time: making batches
    computing: Figure | None  # of the making: on a core, waiting for threads of the same process, or queueing for a core behind each other
    blocked: Figure | None  # of the making: neither
    queueing: Figure | None  # of the making: for a core
    cores: float | None  # busy cores of the job
    is_foreign: bool  # they queue behind others: the queueing is left out of the making


def judge(
    point: Point,
    *,
    cores: float | None,
    first: dict[str, Any] | None = None,
    calls: BuiltinCalls | None = None,
    points: Sequence[Point] = (),
    carrying: float | None = None,
) -> Bound:
    """The verdict about a loader with its workers. `first`: its first reading; `calls`: what built-in calls take; `points`: its curve.

    `carrying`: the share of a sample's time that is its way from a worker to the training; None where that is not known.
    """
    shares = _shares(point, cores)
    ready = _ready(point)
    rows = _rows(point, shares, ready, cores, first, carrying)
    if point.starting is not None and point.starting > HALF:
        return Bound(kind="start", sentence=_starting(point), rows=rows)
    if shares.making is None or shares.computing is None or shares.blocked is None:
        return Bound(kind="undetermined", sentence="too few batches were read to say what slows the loader", rows=rows)
    # Workers that make batches all the time are what is waited for, whatever a receipt takes beside that.
    if ready is not None and _carrying(point, ready) > max(HALF, shares.making.value):
        sentence = f"a batch is ready {format_share(ready)} of the time: receiving it takes long, not making it"
        return Bound(kind="transport", sentence=sentence, rows=rows)
    # Both are needed: a way that is long and that many workers share may still be worth it, and without workers caches may be warmer.
    if carrying is not None and carrying > HALF and (gain := gain_without_workers(point, points)) is not None:
        return Bound(kind="transport", sentence=_too_long_a_way(carrying, gain), rows=rows)
    if point.workers and shares.making.high < HALF:
        return Bound(kind="undetermined", sentence=_uneven(shares.making), rows=rows)
    if shares.computing.low > HALF:
        return Bound(kind="cpu", sentence=_computing(point, shares, cores, points), rows=rows)
    if shares.blocked.low > HALF:
        kind, cause = _cause(point, calls, shares.blocked.value)
        return Bound(kind=kind, sentence=cause, rows=rows)
    sentence = (
        f"mixed: {format_share(shares.computing.value)} of making a batch is computing and {format_share(shares.blocked.value)} waiting"
    )
    return Bound(kind="undetermined", sentence=sentence, rows=rows)


def is_crowded(point: Point, cores: float | None) -> bool:
    """Whether the loader's producers queue for cores that the job does not use up itself: others take them, or it needs them in bursts."""
    queueing, busy = _queueing(point), _busy(point)
    if queueing is None or busy is None or cores is None:
        return False
    return _is_much(queueing) and busy.value < BUSY * cores


def _is_much(queueing: Figure) -> bool:
    return queueing.value >= MUCH_QUEUEING


def _queueing(point: Point) -> Figure | None:
    return ratio([min(s["delay_ns"], s["wall_ns"]) for s in point.slices], [s["wall_ns"] for s in point.slices], least=FEWEST_BLOCKS)


def _busy(point: Point) -> Figure | None:
    used = [s["process_ns"] + (s["trainer_cpu_ns"] if point.workers else 0) for s in point.slices]
    return ratio(used, [s["period_ns"] for s in point.slices], least=FEWEST_BLOCKS)


def _shares(point: Point, cores: float | None) -> _Shares:
    slices, is_foreign = point.slices, is_crowded(point, cores)
    period = [s["period_ns"] for s in slices]
    wall = [s["wall_ns"] for s in slices]
    queue = [min(s["delay_ns"], max(s["wall_ns"] - s["cpu_ns"], 0)) for s in slices]
    still = [max(s["wall_ns"] - s["cpu_ns"] - q, 0) for s, q in zip(slices, queue, strict=True)]
    # Other threads of a worker include the one that sends its batches, which keeps nobody waiting for long.
    lock = [min(b, s["others_ns"]) for b, s in zip(still, slices, strict=True)]
    blocked = [b - held for b, held in zip(still, lock, strict=True)]
    made = [w - q for w, q in zip(wall, queue, strict=True)] if is_foreign else wall
    computing = [m - b for m, b in zip(made, blocked, strict=True)]
    busy = _busy(point)
    return _Shares(
        making=ratio(wall, [p * max(point.workers, 1) for p in period], least=FEWEST_BLOCKS),
        computing=ratio(computing, made, least=FEWEST_BLOCKS),
        blocked=ratio(blocked, made, least=FEWEST_BLOCKS),
        queueing=_queueing(point),
        cores=None if busy is None else busy.value,
        is_foreign=is_foreign,
    )


def _ready(point: Point) -> float | None:
    """The share of the time that went by in receiving batches that lay ready; None without workers."""
    period = sum(s["period_ns"] for s in point.slices)
    return point.ready_ns / period if point.workers and period else None


def _carrying(point: Point, ready: float) -> float:
    """The share of the time that carrying batches takes itself: receipts that wait for the interpreter of a busy worker compute nothing."""
    period = sum(s["period_ns"] for s in point.slices)
    used = sum(max(s["process_ns"] - s["cpu_ns"], 0) + s["trainer_cpu_ns"] for s in point.slices)
    return min(ready, float(used / period))


def _starting(point: Point) -> str:
    length = "" if point.epoch_batches is None else f", of {format_count(round(point.epoch_batches), 'batch', 'batches')}"
    return f"{format_share(point.starting)} of its time goes to starting workers at each epoch{length}, and to ending them"


def _uneven(making: Figure) -> str:
    return (
        f"workers make batches only {format_share(making.value)} of their time, yet none lies ready: "
        "batches that take unequal times wait for "
        "each other, or sending them takes the rest"
    )


def _computing(point: Point, shares: _Shares, cores: float | None, points: Sequence[Point]) -> str:
    text = f"making a batch is {_computed(shares)}"
    if shares.cores is None or cores is None:
        return text
    text += f", and the loader uses {shares.cores:.1f} of {cores:g} cores"
    is_full, measured = shares.cores >= BUSY * cores, beside_others(point, points)
    # What the curve measured goes before what busy cores let one expect.
    if measured is not None and measured.is_faster:
        return f"{text}, {'but' if is_full else 'and'} {measured.said} (see the curve)"
    if is_full:
        return f"{text}: more workers would find no free core{'' if measured is None else f', and were {measured.said} (see the curve)'}"
    if shares.is_foreign:
        return f"{text}: other processes use the rest, or the loader computes in bursts, for which there are too few"
    return (
        f"{text}: more workers could use the rest"
        if measured is None
        else f"{text}, but more workers were {measured.said} (see the curve){_beside_compute(point)}"
    )


def _computed(shares: _Shares) -> str:
    """What computing takes of making a batch, and where it is much the waiting for a core, which counts as computing or is left out."""
    text = f"{format_share(0.0 if shares.computing is None else min(shares.computing.value, 1.0))} computing"
    if shares.queueing is None or not _is_much(shares.queueing):
        return text
    waiting = format_share(shares.queueing.value)
    return f"{text}, waits for a core ({waiting} of the time) left out" if shares.is_foreign else f"{text} ({waiting} waiting for a core)"


def _beside_compute(point: Point) -> str:
    """Of a loader without workers: a curve of the loader alone does not show what they are for."""
    return "" if point.workers else ", with nothing else to do: in the training they work while the model computes"


def _too_long_a_way(carrying: float, gain: float) -> str:
    return (
        f"moving a sample from a worker to the training is {format_share(carrying)} of what a sample takes, "
        f"and without workers the loader alone is {format_ratio(gain)} as fast: use no workers, or larger batches of fewer tensors"
    )


def _cause(point: Point, calls: BuiltinCalls | None, blocked: float) -> tuple[BoundKind, str]:
    """What producers stand still for: told by their calls where half of their reading is of one kind, else by counters of the kernel."""
    text = f"making a batch is {format_share(blocked)} waiting"
    kinds = {kind: calls.whole((kind,)) for kind in READING} if calls else {}
    most = max(kinds, key=lambda kind: kinds[kind], default=None)
    if calls is not None and most is not None and kinds[most] > HALF * sum(kinds.values()) and kinds[most] > 0 and most != "file":
        return ("network" if most == "network" else "blocked"), f"{text}, in {calls.top.get(most, most)}"
    read, storage = point.total("read_bytes"), point.total("storage_bytes")
    if read is not None and storage and storage >= FROM_STORAGE * max(read, storage):
        return "storage", f"{text}, and {format_share(storage / max(read, storage))} of what it reads comes from storage"
    connections = max((s.get("connections") or 0 for s in point.slices), default=0)
    if connections and (point.total("received_bytes") or 0) > 0:
        return "network", f"{text}, with {format_count(connections, 'connection')} open"
    return "blocked", f"{text}; neither storage nor a connection explains it (a sleep, a lock, a remote service)"


def _rows(
    point: Point, shares: _Shares, ready: float | None, cores: float | None, first: dict[str, Any] | None, carrying: float | None
) -> tuple[Row, ...]:
    rows = [
        _share("making batches, of the loader's time", shares.making),
        _share("computing, of making a batch", shares.computing),
        _share("standing still, of making a batch", shares.blocked),
        _share("queueing for a core, of making a batch", shares.queueing),
    ]
    if point.workers:
        rows.append(Row(name="starting workers, of the time", value=point.starting, unit="share", threshold=HALF, source=HALF_FROM))
        rows.append(Row(name="receiving ready batches, of the time", value=ready, unit="share", threshold=HALF, source=HALF_FROM))
    if carrying is not None:
        rows.append(Row(name="the way to the training, of a sample", value=carrying, unit="share", threshold=HALF, source=HALF_FROM))
    busy = None if cores is None else BUSY * cores
    rows.append(Row(name="busy cores", value=shares.cores, unit="cores", threshold=busy, source=BUSY_CORE_SOURCE))
    if first is not None:
        stored = page_cache(first)[1]
        rows.append(Row(name="bytes from storage, first reading", value=stored, unit="share", threshold=FROM_STORAGE, source=STORAGE_FROM))
    most = max((s.get("connections") or 0 for s in point.slices), default=0)
    rows.append(Row(name="connections open at once", value=float(most), unit=""))
    return tuple(rows)


def _share(name: str, figure: Figure | None) -> Row:
    # A batch counts whole where it ends: of a few looks its time may be a little more than theirs.
    return Row(name=name, value=None if figure is None else min(figure.value, 1.0), unit="share", threshold=HALF, source=HALF_FROM)
