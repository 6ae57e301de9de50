"""What a loader is bound by: computing, storage, the network, the way from workers to the training, or their start. Pure.

Every threshold is one half, as in the I/O rule of SageMaker's debugger (an I/O bottleneck where I/O wait is over 50 %): what takes more
than half of the time is the only thing whose removal can double the speed (Amdahl). The interval of a share must lie above it, else the
evidence is called mixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from slowstep.prove.bench.loader_curve import compared_with_others, gain_without_workers
from slowstep.prove.bench.loader_speed import Point, page_cache
from slowstep.prove.bench.loader_stages import READING, BuiltinCalls
from slowstep.prove.stats.figures import FEWEST_BLOCKS, Figure, ratio
from slowstep.reasons import Reason, Wording

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

FEW_BATCHES: Final = Wording("bound-of-few-batches", "too few batches were read to say what slows the loader")
MIXED: Final = Wording("bound-is-mixed", "mixed: {computing:share} of making a batch is computing and {waiting:share} waiting")
STARTS: Final = Wording("bound-by-starts", "{share:share} of its time goes to starting workers at each epoch{length}, and to ending them")
_LENGTH: Final = Wording("length-of-epoch", ", of {batches:count batch|batches}")
LIE_READY: Final = Wording("receiving-takes-long", "a batch is ready {share:share} of the time: receiving it takes long, not making it")
LONG_WAY: Final = Wording(
    "long-way-from-workers",
    "moving a sample from a worker to the training is {share:share} of what a sample takes, and without workers the loader alone is "
    "{gain:ratio} as fast: use no workers, or larger batches of fewer tensors",
)
UNEVEN: Final = Wording(
    "batches-take-unequal-times",
    "workers make batches only {share:share} of their time, yet none lies ready: batches that take unequal times wait for each other, or "
    "sending them takes the rest",
)

COMPUTES: Final = Wording("bound-by-computing", "making a batch is {share:share} computing{waiting}{cores}{more}")
_WAITS_LEFT_OUT: Final = Wording("core-waits-not-counted", ", waits for a core ({share:share} of the time) left out")
_WAITS_AMONG: Final = Wording("core-waits-among", " ({share:share} waiting for a core)")
_CORES: Final = Wording("cores-of-loader", ", and the loader uses {used:.1f} of {cores:g} cores")
BUT_FASTER: Final = Wording("full-but-faster", ", but {others} (see the curve)")
AND_FASTER: Final = Wording("free-and-faster", ", and {others} (see the curve)")
NO_FREE_CORE: Final = Wording("no-free-core", ": more workers would find no free core{curve}")
_WERE: Final = Wording("more-workers-in-curve", ", and were {others} (see the curve)")
OTHERS_USE: Final = Wording(
    "others-use-the-rest", ": other processes use the rest, or the loader computes in bursts, for which there are too few"
)
COULD_USE: Final = Wording("more-workers-could-use", ": more workers could use the rest")
MORE_WERE: Final = Wording("more-workers-were", ", but more workers were {others} (see the curve){alone}")
# Of a loader without workers: a curve of the loader alone does not show what they are for.
_ALONE: Final = Wording("curve-is-alone", ", with nothing else to do: in the training they work while the model computes")

STANDS_STILL: Final = Wording("bound-by-waiting", "making a batch is {share:share} waiting{cause}")
IN_CALL: Final = Wording("waiting-in-call", ", in {call}")
FROM_DISK: Final = Wording("read-from-storage", ", and {share:share} of what it reads comes from storage")
CONNECTED: Final = Wording("waiting-connected", ", with {connections:count connection} open")
UNEXPLAINED: Final = Wording("waiting-unexplained", "; neither storage nor a connection explains it (a sleep, a lock, a remote service)")


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
    """The verdict in one word and with its reason, and all that it was drawn from."""

    kind: BoundKind
    reason: Reason
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
        return Bound(kind="start", reason=_starting(point, point.starting), rows=rows)
    if shares.making is None or shares.computing is None or shares.blocked is None:
        return Bound(kind="undetermined", reason=FEW_BATCHES(), rows=rows)
    # Workers that make batches all the time are what is waited for, whatever a receipt takes beside that.
    if ready is not None and _carrying(point, ready) > max(HALF, shares.making.value):
        return Bound(kind="transport", reason=LIE_READY(share=ready), rows=rows)
    # Both are needed: a way that is long and that many workers share may still be worth it, and without workers caches may be warmer.
    if carrying is not None and carrying > HALF and (gain := gain_without_workers(point, points)) is not None:
        return Bound(kind="transport", reason=LONG_WAY(share=carrying, gain=gain), rows=rows)
    if point.workers and shares.making.high < HALF:
        return Bound(kind="undetermined", reason=UNEVEN(share=shares.making.value), rows=rows)
    if shares.computing.low > HALF:
        return Bound(kind="cpu", reason=_computing(point, shares, cores, points), rows=rows)
    if shares.blocked.low > HALF:
        kind, cause = _cause(point, calls)
        return Bound(kind=kind, reason=STANDS_STILL(share=shares.blocked.value, cause=cause), rows=rows)
    return Bound(kind="undetermined", reason=MIXED(computing=shares.computing.value, waiting=shares.blocked.value), rows=rows)


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


def _starting(point: Point, share: float) -> Reason:
    length = None if point.epoch_batches is None else _LENGTH(batches=round(point.epoch_batches))
    return STARTS(share=share, length=length)


def _computing(point: Point, shares: _Shares, cores: float | None, points: Sequence[Point]) -> Reason:
    """What computing takes of making a batch, and whether more workers would help."""
    share = 0.0 if shares.computing is None else min(shares.computing.value, 1.0)
    if shares.cores is None or cores is None:
        return COMPUTES(share=share, waiting=_waiting(shares), cores=None, more=None)
    uses = _CORES(used=shares.cores, cores=cores)
    return COMPUTES(share=share, waiting=_waiting(shares), cores=uses, more=_more_workers(point, shares, cores, points))


def _waiting(shares: _Shares) -> Reason | None:
    """The waiting for a core, where it is much: it counts as computing or is left out."""
    if shares.queueing is None or not _is_much(shares.queueing):
        return None
    return (_WAITS_LEFT_OUT if shares.is_foreign else _WAITS_AMONG)(share=shares.queueing.value)


def _more_workers(point: Point, shares: _Shares, cores: float, points: Sequence[Point]) -> Reason:
    is_full, measured = shares.cores is not None and shares.cores >= BUSY * cores, compared_with_others(point, points)
    # What the curve measured goes before what busy cores let one expect.
    if measured is not None and measured.is_faster:
        return (BUT_FASTER if is_full else AND_FASTER)(others=measured.said)
    if is_full:
        return NO_FREE_CORE(curve=None if measured is None else _WERE(others=measured.said))
    if shares.is_foreign:
        return OTHERS_USE()
    if measured is None:
        return COULD_USE()
    return MORE_WERE(others=measured.said, alone=None if point.workers else _ALONE())


def _cause(point: Point, calls: BuiltinCalls | None) -> tuple[BoundKind, Reason]:
    """What producers stand still for: told by their calls where half of their reading is of one kind, else by counters of the kernel."""
    kinds = {kind: calls.whole((kind,)) for kind in READING} if calls else {}
    most = max(kinds, key=lambda kind: kinds[kind], default=None)
    if calls is not None and most is not None and kinds[most] > HALF * sum(kinds.values()) and kinds[most] > 0 and most != "file":
        return ("network" if most == "network" else "blocked"), IN_CALL(call=calls.top.get(most, most))
    read, storage = point.total("read_bytes"), point.total("storage_bytes")
    if read is not None and storage and storage >= FROM_STORAGE * max(read, storage):
        return "storage", FROM_DISK(share=storage / max(read, storage))
    connections = max((s.get("connections") or 0 for s in point.slices), default=0)
    if connections and (point.total("received_bytes") or 0) > 0:
        return "network", CONNECTED(connections=connections)
    return "blocked", UNEXPLAINED()


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
