"""How fast a loader is alone, and with other numbers of workers: from the readings that the task `bench_data` made of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from slowstep.experiments.figures import Figure, blocks, ratio

Cache = Literal["warm", "cold", "mixed", "unknown"]

# More workers that add less are not worth their memory: under 5 % is what experiments here can just tell from nothing in a minute
# (recording.md B: 240 steps an arm for +-5 %).
LEAST_ADDED: Final = 0.05
# Under this share of storage bytes in read bytes the page cache has answered nearly all reads; over one minus it, nearly none.
FEW: Final = 0.05
_UNKNOWN: Final = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """The loader with a number of workers. Figures are None where too few batches came in the time: `reason` says so, or what it raised.

    `start_s` is what the start of an iterator took until its first batch. `slices`: see levers/_tasks/_account.py.
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

    @property
    def has_connections(self) -> bool:
        """Whether its producers were seen to hold a connection of the network."""
        return any(each.get("connections") for each in self.slices)


def make_point(workers: int, drains: Sequence[dict[str, Any]]) -> Point:
    """One point from all readings of the loader with that number of workers."""
    tables = [blocks(np.array(d["rows"], dtype=np.int64).reshape(-1, 4), max(workers, 1)) for d in drains]
    table = np.concatenate(tables)
    ns, counts, samples, size = table.T
    reason = next((d["reason"] for d in drains if d["reason"]), None)
    known = len(table) > 0 and samples.min() >= 0
    rate = ratio(counts, ns / 1e9)
    starts = [start for d in drains for start in d["starts_ns"]]
    return Point(
        workers=workers,
        samples_per_s=ratio(samples, ns / 1e9) if known else None,
        batches_per_s=rate,
        bytes_per_s=ratio(size, ns / 1e9) if len(table) and size.min() >= 0 else None,
        batches=int(counts.sum()),
        samples=int(samples.sum()) if known else _UNKNOWN,
        seen=sum(d["seen"] for d in drains) if all(d["seen"] >= 0 for d in drains) else _UNKNOWN,
        ready=sum(d["ready"] for d in drains),
        ready_ns=sum(d["ready_ns"] for d in drains),
        start_s=float(np.median(starts)) / 1e9 if starts else None,
        slices=tuple(each for d in drains for each in d["slices"]),
        reason=reason or (None if rate else f"only {int(counts.sum())} batches came in its time"),
    )


def own_point(drains: Sequence[dict[str, Any]]) -> Point:
    """The loader as it is: all readings with its own workers; only the first where that read from storage what later ones found cached."""
    first = drains[0]
    same = [d for d in drains if d["workers"] == first["workers"]]
    return make_point(first["workers"], [first] if page_cache(first)[0] in ("cold", "mixed") else same)


def curve(drains: Sequence[dict[str, Any]]) -> tuple[Point, ...]:
    """A point for each number of workers that was tried: of readings after the first one, which may have met a cold cache."""
    later = drains[1:] or drains
    return tuple(make_point(workers, [d for d in later if d["workers"] == workers]) for workers in sorted({d["workers"] for d in later}))


def bend(points: Sequence[Point]) -> int | None:
    """The fewest workers with which the loader is nearly as fast as with any number; None where under two points were measured."""
    known = [(point.workers, point.batches_per_s.value) for point in points if point.batches_per_s is not None]
    if len(known) < 2:
        return None
    best = max(rate for _, rate in known)
    return next(workers for workers, rate in known if rate * (1 + LEAST_ADDED) >= best)


def page_cache(drain: dict[str, Any]) -> tuple[Cache, float | None]:
    """How cold the page cache was in a reading: `warm`, `cold`, `mixed` or `unknown`, and the share of the bytes that came from storage."""
    called = [each.get("read_bytes") for each in drain["slices"]]
    storage = [each.get("storage_bytes") for each in drain["slices"]]
    if not called or None in called or None in storage:
        return "unknown", None
    # What is mapped into memory is read without a call: storage may have given more than calls returned.
    read = max(sum(called), sum(storage))
    if not read:
        return "unknown", None
    share = sum(storage) / read
    return ("warm" if share <= FEW else "cold" if share >= 1 - FEW else "mixed"), share
