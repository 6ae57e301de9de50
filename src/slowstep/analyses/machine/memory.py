"""Memory over the window: what the process tree holds, whether that grows, how far the limit is, and swapping."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.machine.window import Window, rate
from slowstep.analyses.steps.steps import Floats
from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.timeline import Timeline

# Growth is judged by quarters of the window: with fewer readings in each, one odd reading would be a trend.
READINGS_PER_QUARTER = 3
QUARTERS = 4
# Two changes can be compared; fewer are no course.
EARLY_READINGS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryGrowth:
    """How memory of the process tree changed, pages of files and shared ones left out, bytes per second.

    `per_s` is from the first quarter of the window to the last; low and high are those of the slowest and the fastest of the three changes
    from quarter to quarter, each seen in medians and in minima (which workers that end with every epoch do not move).
    """

    first_bytes: float  # median of the first quarter
    last_bytes: float  # of the last
    per_s: float
    low_per_s: float
    high_per_s: float
    in_trainer: bool | None  # whether the largest process is the training process
    readings: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """The limit that is nearest: what may be used, the least that was left in the window, and whose limit it is."""

    of: str  # "the control group" or "the machine"
    limit_bytes: int
    left_bytes: int

    @property
    def left_share(self) -> float:
        """Of the limit."""
        return self.left_bytes / self.limit_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """Memory over the window; None is not measured."""

    resident_bytes: float | None  # of the process tree, median
    growth: MemoryGrowth | None  # None also where the window is too short
    early: MemoryGrowth | None  # what such a window shows, of the training process alone: workers that start grow for seconds
    limit: Limit | None
    swap_in_per_s: float | None  # bytes; None also where there is no swap space
    swap_out_per_s: float | None


def find_memory(timeline: Timeline, trainer: Trainer, window: Window) -> Memory:
    """Measure memory over the window."""
    tree = window.readings(timeline.table("tree_memory"))
    return Memory(
        resident_bytes=float(np.median(tree["resident_bytes"].to_numpy())) if tree.height else None,
        growth=_growth(tree, trainer.facts.pid),
        early=_early(tree, trainer.facts.pid),
        limit=_limit(timeline, window),
        swap_in_per_s=_per_s(timeline.table("swap"), "in_bytes", window),
        swap_out_per_s=_per_s(timeline.table("swap"), "out_bytes", window),
    )


def _per_s(table: pl.DataFrame, column: str, window: Window) -> float | None:
    per_ns = rate(table, column, window)
    return None if per_ns is None else per_ns * 1e9


def _growth(tree: pl.DataFrame, trainer_pid: int) -> MemoryGrowth | None:
    return None if _is_short(tree) else _course(tree, "own_bytes", trainer_pid)


def _early(tree: pl.DataFrame, trainer_pid: int) -> MemoryGrowth | None:
    trainers = trainer_pid > 0 and bool((tree["largest_pid"] == trainer_pid).all())
    return _course(tree, "largest_bytes", trainer_pid) if _is_short(tree) and tree.height >= EARLY_READINGS and trainers else None


def _is_short(tree: pl.DataFrame) -> bool:
    return tree.height < QUARTERS * READINGS_PER_QUARTER


def _course(tree: pl.DataFrame, column: str, trainer_pid: int) -> MemoryGrowth:
    time, held = tree["time_ns"].to_numpy() / 1e9, tree[column].to_numpy().astype(np.float64)
    quarters = np.array_split(np.arange(tree.height), min(QUARTERS, tree.height))
    at = np.array([time[quarter].mean() for quarter in quarters])
    medians = np.array([np.median(held[quarter]) for quarter in quarters])
    minima = np.array([held[quarter].min() for quarter in quarters])
    changes = np.concatenate((_slopes(medians, at), _slopes(minima, at)))
    largest: NDArray[np.bool_] = (tree["largest_pid"] == trainer_pid).to_numpy()
    return MemoryGrowth(
        first_bytes=float(medians[0]),
        last_bytes=float(medians[-1]),
        per_s=float((medians[-1] - medians[0]) / (at[-1] - at[0])),
        low_per_s=float(changes.min()),
        high_per_s=float(changes.max()),
        in_trainer=bool(largest[-1]) if trainer_pid > 0 else None,
        readings=tree.height,
    )


def _slopes(values: Floats, at: Floats) -> Floats:
    return np.asarray(np.diff(values) / np.diff(at))


def _limit(timeline: Timeline, window: Window) -> Limit | None:
    """Of the limits of the control group and the machine, the one of which least is left."""
    found = [limit for limit in (_of_group(timeline, window), _of_machine(timeline, window)) if limit is not None]
    return min(found, key=lambda limit: limit.left_bytes, default=None)


def _of_group(timeline: Timeline, window: Window) -> Limit | None:
    readings = window.readings(timeline.table("group_memory")).drop_nulls("limit_bytes")
    if readings.is_empty():
        return None
    # What the kernel can drop at once is not lost to the group.
    left = readings["limit_bytes"] - (readings["used_bytes"] - readings["droppable_bytes"].fill_null(0))
    return Limit(of="the control group", limit_bytes=int(readings["limit_bytes"][-1]), left_bytes=max(int(left.min()), 0))  # type: ignore[arg-type]


def _of_machine(timeline: Timeline, window: Window) -> Limit | None:
    readings = window.readings(timeline.table("machine_memory"))
    if readings.is_empty():
        return None
    left = int(readings["available_bytes"].min())  # type: ignore[arg-type]
    return Limit(of="the machine", limit_bytes=int(readings["total_bytes"][-1]), left_bytes=left)
