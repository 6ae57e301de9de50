"""How fast a loader is alone, and with other numbers of workers: from the readings that the task `bench_data` made of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from slowstep.levers.warm_cache import LEAST_BYTES
from slowstep.levers.workers import LEAST_ADDED
from slowstep.prove.bench.loader_epochs import EpochTable, read_epochs
from slowstep.prove.stats.figures import FEWEST_BLOCKS, LEAST_BLOCKS, Figure, blocks, combined, inverse, ratio
from slowstep.units import format_count

Cache = Literal["warm", "cold", "mixed", "unknown"]

# Under this share of storage bytes in read bytes the page cache has answered nearly all reads; over one minus it, nearly none. Two shares
# that differ by no more are of one state of it.
FEW: Final = 0.05
_UNKNOWN: Final = -1
_NS, _BATCHES, _SAMPLES, _BYTES = range(4)


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """The loader with a number of workers. Figures are None where too few batches came in the time: `reason` says so, or what it raised.

    Where epochs were seen to begin, figures are those of whole epochs, of `epoch_batches`: the start of each is in them, and the end of
    its workers. `edge_s` is what these take of an epoch until its first batch, and after its last; `making_s` of it is the making of that
    batch. All three are None where nothing is known of epochs. `start_s` is what the start of an iterator took until its first batch.
    `few`: from so few batches that the interval is Student's. `slices`: see record/experiment/account.py.
    """

    workers: int
    samples_per_s: Figure | None
    batches_per_s: Figure | None
    bytes_per_s: Figure | None
    batches: int
    samples: int
    seen: int
    ready: int
    ready_ns: int
    start_s: float | None
    epoch_batches: float | None
    edge_s: float | None
    making_s: float | None
    few: bool
    slices: tuple[dict[str, Any], ...]
    reason: str | None

    def total(self, name: str) -> int | None:
        """The sum of a counter over all slices; None where it is unknown."""
        values = [each.get(name) for each in self.slices]
        return None if not values or None in values else sum(value for value in values if value is not None)

    def per_s(self, name: str) -> Figure | None:
        """How much a counter counts in a second; None where it is unknown, or was looked at too seldom."""
        counted = [each.get(name) for each in self.slices]
        if None in counted:
            return None
        return ratio([value or 0 for value in counted], [each["period_ns"] / 1e9 for each in self.slices])

    def per_batch(self, *names: str) -> Figure | None:
        """How much some counters count together for a batch; None where one is unknown, or no two looks were made."""
        counted = [[each.get(name) for name in names] for each in self.slices]
        if any(None in each for each in counted):
            return None
        sums = [sum(value or 0 for value in each) for each in counted]
        return ratio(sums, [each["batches"] for each in self.slices], least=FEWEST_BLOCKS)

    @property
    def has_connections(self) -> bool:
        """Whether its producers were seen to hold a connection of the network."""
        return any(each.get("connections") for each in self.slices)

    @property
    def edge_ms(self) -> float:
        """Ms per sample of `edge_s`; 0 where it, or the samples, are not known."""
        if self.edge_s is None or self.epoch_batches is None or self.samples <= 0:
            return 0.0
        return self.edge_s * 1e3 / (self.epoch_batches * self.samples / self.batches)

    @property
    def starting(self) -> float | None:
        """The share of the time in which workers are started and ended, the making of a first batch not counted; None where unknown."""
        if not self.workers or None in (self.edge_s, self.making_s, self.epoch_batches) or self.batches_per_s is None:
            return None
        assert self.edge_s is not None
        assert self.making_s is not None
        assert self.epoch_batches is not None
        return max(self.edge_s - self.making_s, 0.0) * self.batches_per_s.value / self.epoch_batches


def make_point(workers: int, drains: Sequence[dict[str, Any]]) -> Point:
    """One point from all readings of the loader with that number of workers."""
    tables = [blocks(np.array(d["rows"], dtype=np.int64).reshape(-1, 4), max(workers, 1)) for d in drains]
    rows, epochs = np.concatenate(tables), read_epochs(drains)
    edges = epochs.table if epochs is not None else np.zeros((0, 4), dtype=np.int64)
    both = np.concatenate((rows, edges))
    seen = [*(d["seen"] for d in drains), *(epochs.seen if epochs is not None else ())]
    known = len(both) > 0 and both[:, _SAMPLES].min() >= 0
    sized = len(both) > 0 and both[:, _BYTES].min() >= 0
    speed = partial(_speed, rows, epochs)
    starts = [start for d in drains for start in d["starts_ns"]]
    slices = tuple(each for d in drains for each in d["slices"])
    count, rate = int(both[:, _BATCHES].sum()), speed(_BATCHES)
    reason = next((d["reason"] for d in drains if d["reason"]), None)
    few = rate is not None and max(len(rows), len(edges)) < LEAST_BLOCKS
    return Point(
        workers=workers,
        samples_per_s=speed(_SAMPLES) if known else None,
        batches_per_s=rate,
        bytes_per_s=speed(_BYTES) if sized else None,
        batches=count,
        samples=int(both[:, _SAMPLES].sum()) if known else _UNKNOWN,
        seen=sum(seen) if min(seen, default=_UNKNOWN) >= 0 else _UNKNOWN,
        ready=sum(d["ready"] for d in drains),
        ready_ns=sum(d["ready_ns"] for d in drains),
        start_s=float(np.median(starts)) / 1e9 if starts else None,
        epoch_batches=None if epochs is None else epochs.batches,
        edge_s=None if epochs is None else epochs.edge_ns / 1e9,
        making_s=None if epochs is None else _making_s(workers, rows, slices),
        few=few,
        slices=slices,
        reason=reason or (f"from {format_count(count, 'batch', 'batches')}" if few else None if rate else _too_few(count)),
    )


def _too_few(count: int) -> str:
    return f"only {format_count(count, 'batch', 'batches')} came in its time"


def _speed(rows: NDArray[np.int64], epochs: EpochTable | None, column: int) -> Figure | None:
    """What of a column comes in a second: of whole epochs where these are known."""
    steady = ratio(rows[:, column], rows[:, _NS] / 1e9, least=FEWEST_BLOCKS)
    if epochs is None or not epochs.amount(column, rows):
        return steady
    whole = epochs.whole_s(steady, column, rows)
    return None if whole is None else inverse(whole, epochs.amount(column, rows))


def _making_s(workers: int, rows: NDArray[np.int64], slices: Sequence[dict[str, Any]]) -> float | None:
    """What a first batch takes where workers run already, in seconds: its making, and where its way takes longer, the pace of a worker."""
    made, received = sum(each["batches"] for each in slices), int(rows[:, _BATCHES].sum())
    if not made:
        return None
    pace_ns = max(workers, 1) * float(rows[:, _NS].sum()) / received if received else 0.0
    making_ns: float = sum(each["wall_ns"] for each in slices) / made
    return float(max(making_ns, pace_ns)) / 1e9


def own_point(drains: Sequence[dict[str, Any]]) -> Point:
    """The loader as it is: the first reading, and those with its own workers that met the page cache as it did."""
    first = drains[0]
    return make_point(first["workers"], [first, *(d for d in _own_later(drains) if are_alike(first, d))])


def curve(drains: Sequence[dict[str, Any]]) -> tuple[Point, ...]:
    """A point for each number of workers that was tried, of readings after the first one.

    The first stands with those of its own number where all of them met the page cache alike, and where there was no time for another:
    else it met a cold cache that those of the curve did not.
    """
    first, own = drains[0], _own_later(drains)
    later = [d for d in drains[1:] if d["workers"] != first["workers"]] + own
    if all(are_alike(first, d) for d in own):
        later = [first, *later]
    return tuple(make_point(workers, [d for d in later if d["workers"] == workers]) for workers in sorted({d["workers"] for d in later}))


def _own_later(drains: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Readings after the first one, with as many workers, in which any batch came."""
    return [d for d in drains[1:] if d["workers"] == drains[0]["workers"] and d["starts_ns"]]


def change_of_cache(drains: Sequence[dict[str, Any]]) -> tuple[float, float] | None:
    """The shares of the bytes that came from storage in the first reading and in the last one with its number of workers; None where
    these are alike, or not known."""
    first, others = drains[0], [d for d in _own_later(drains) if not are_alike(drains[0], d)]
    if not others:
        return None
    then, since = share_from_storage(first), share_from_storage(others[-1])
    return None if then is None or since is None else (then, since)


def are_alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two readings met the page cache in the same state, as far as is known."""
    shares = share_from_storage(one), share_from_storage(other)
    return None in shares or abs((shares[0] or 0.0) - (shares[1] or 0.0)) <= FEW


def bend(points: Sequence[Point]) -> int | None:
    """The fewest workers that no others are surely faster than; None where under two points were measured."""
    known = [(point.workers, point.batches_per_s) for point in points if point.batches_per_s is not None]
    if len(known) < 2:
        return None
    return next(workers for workers, rate in known if not any(is_surely_faster(other, rate) for _, other in known))


def is_surely_faster(other: Figure, rate: Figure) -> bool:
    """Whether a rate is higher than another by what makes a number of workers worth it, and by its interval higher at all.

    Of the last points of a curve one may be known to 50 % only: by values alone it rose where more workers found no core.
    """
    return other.value > rate.value * (1 + LEAST_ADDED) and combined(np.subtract, other, rate).low > 0


def page_cache(drain: dict[str, Any]) -> tuple[Cache, float | None]:
    """How cold the page cache was in a reading: `warm`, `cold`, `mixed` or `unknown`, and the share of the bytes that came from storage.

    It is unknown, too, where next to nothing was read: under LEAST_BYTES a batch.
    """
    share, (called, storage) = share_from_storage(drain), _read(drain)
    # What workers and training say to each other is read, too, and cached files that are mapped are read without a call: such a reading
    # is of a share of nothing.
    if share is None or max(called or 0, storage or 0) < LEAST_BYTES * sum(each["batches"] for each in drain["slices"]):
        return "unknown", None
    return ("warm" if share <= FEW else "cold" if share >= 1 - FEW else "mixed"), share


def share_from_storage(drain: dict[str, Any]) -> float | None:
    """The share of the bytes of a reading that came from storage, however few these are; None where that is not known."""
    return from_storage(*_read(drain))


def _read(drain: dict[str, Any]) -> tuple[int | None, int | None]:
    """Bytes of a reading that read calls returned, and those that came from storage; None where that is not known."""
    called = [each.get("read_bytes") for each in drain["slices"]]
    storage = [each.get("storage_bytes") for each in drain["slices"]]
    return None if not called or None in called else sum(called), None if None in storage else sum(storage)


def from_storage(called_bytes: int | None, storage_bytes: int | None) -> float | None:
    """The share of what was read that came from storage; None where that is not known, or nothing was read."""
    if called_bytes is None or storage_bytes is None:
        return None
    # What is mapped into memory is read without a call: storage may have given more than calls returned.
    read = max(called_bytes, storage_bytes)
    return storage_bytes / read if read else None
