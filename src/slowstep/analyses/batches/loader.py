"""The loader that feeds the training; of several that are read together, as by zip(), the one that it waits for most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from slowstep.analyses.batches.loader_identity import find_read, identities
from slowstep.analyses.python.functions import shown
from slowstep.analyses.steps.trainer import Trainer
from slowstep.record.writing.format import FIRST_OF_STEPS
from slowstep.timeline.timeline import Timeline

# A loader that is waited for twice as long as all that are read beside it together is the one waited for most in other steps, too.
SURELY_MOST: Final = 2 / 3
# The last epoch may have just begun: what was read beside a loader is known by so many of its iterators.
_LAST_ITERATORS: Final = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class ConcurrentLoader:
    """A loader that is read beside the one that is waited for most."""

    iterators: tuple[int, ...]
    num_workers: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Loader:
    """The training's loader, as it was made. None is unknown."""

    num_workers: int
    prefetch_factor: int | None
    batch_size: int | None
    dataset: str | None
    collate: str | None
    collate_file: str | None
    collate_where: str | None
    collate_is_default: bool | None
    read_together: int  # how many loaders each step reads, this one among them
    waited_share: float  # of the time in which those are waited for, its part; 1 where there is no other
    iterators: tuple[int, ...]  # all of its own in the recording
    other_loaders: tuple[ConcurrentLoader, ...]  # the others that are read together with it
    is_named: bool  # its data set's name tells it from those
    is_marked: bool = False  # input of the script's own, by `slowstep.steps`: no framework makes its batches, and no lever changes it
    framework: str | None = None  # whose loader it is, by the framework's name
    divides: bool | None = None  # whether each worker gives its part of a stream, not all of it; None of a data set with indices, too
    draws: bool = False  # that is unknown because the stream's code draws at random: each worker may give samples of its own, or not
    snapshot_every: int | None = None  # with every so many batches a worker sends its state; None where it sends none
    changed: tuple[str, ...] | None = None  # of its data set, by the script between passes
    generator: str | None = None  # by which a data set with indices holds a generator of random numbers, a copy in each worker
    drop_last: bool | None = None
    persistent: bool | None = None  # its workers outlive an epoch
    pin_memory: bool | None = None  # where there is a device

    @property
    def is_surely_most_waited_for(self) -> bool:
        """Whether an experiment, in which the training itself tells by other steps which loader it waits for most, means this one too."""
        return self.waited_share >= SURELY_MOST

    @property
    def data_set(self) -> str | None:
        """What it reads, in words."""
        return None if self.dataset is None else f"data set {self.dataset}"


def find_loader(timeline: Timeline, trainer: Trainer) -> Loader | None:
    """The loader, with the facts of its last iterator; None where no torch DataLoader feeds the training."""
    read = find_read(timeline, trainer)
    if read.is_empty():
        return None
    whose = {each: number for number, each in enumerate(dict.fromkeys(identities(read)))}
    read = read.with_columns(whose=pl.Series([whose[each] for each in identities(read)], dtype=pl.Int64))
    together = _read_together(read)
    waited = together.group_by("whose", maintain_order=True).agg(pl.col("waited_ns").sum()).sort("waited_ns", maintain_order=True)
    most = waited["whose"][-1]
    others = [_concurrent_loader(read, other) for other in waited["whose"][:-1]]
    row = together.filter(pl.col("whose") == most).row(-1, named=True)
    datasets = together.filter(pl.col("whose") != most)["dataset"].to_list()
    return Loader(
        **_facts(row, trainer),
        read_together=waited.height,
        waited_share=waited["waited_ns"][-1] / max(waited["waited_ns"].sum(), 1) if waited.height > 1 else 1.0,
        iterators=_iterators(read, most),
        other_loaders=tuple(others),
        is_named=row["dataset"] is not None and row["dataset"] not in datasets,
        is_marked=_is_marked(row),
        framework=row["framework"],
        divides=row["divides"],
        draws=bool(row["draws"]),
        snapshot_every=row["snapshot_every"] or None,
        changed=_changed(read, most),
        generator=row["generator"],
        drop_last=row["drop_last"],
        persistent=row["persistent"],
        pin_memory=row["pin_memory"],
    )


def _changed(read: pl.DataFrame, whose: int) -> tuple[str, ...] | None:
    """In any of its passes; None where no two were held against each other."""
    told = read.filter(pl.col("whose") == whose)["changed"].drop_nulls().to_list()
    return tuple(sorted({name for names in told for name in names})) if told else None


def _is_marked(row: dict[str, Any]) -> bool:
    """Whether the script named it by `slowstep.steps`; where that is not recorded, as once, by its number."""
    guess = row["iterator"] >= FIRST_OF_STEPS and row["framework"] is None
    return bool(guess if row["marked"] is None else row["marked"])


def _facts(row: dict[str, Any], trainer: Trainer) -> dict[str, Any]:
    """What is known of how a loader was made."""
    where = f"{shown(row['collate_file'], trainer.facts.script)}:{row['collate_line']}" if row["collate_file"] else None
    same = ("prefetch_factor", "batch_size", "dataset", "collate", "collate_file", "collate_is_default")
    return {"num_workers": row["num_workers"] or 0, "collate_where": where} | {name: row[name] for name in same}


def _read_together(read: pl.DataFrame) -> pl.DataFrame:
    """The last iterators of the loader that was read last, and those of others that were read in the same time."""
    last = read["whose"][-1]
    own = read.filter(pl.col("whose") == last).tail(_LAST_ITERATORS)
    others = _overlapping(read.filter(pl.col("whose") != last), own)
    return read[-1:] if others.is_empty() else pl.concat([_overlapping(own, others), others]).sort("start_ns", maintain_order=True)


def _overlapping(rows: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """The rows that were read while one of the others was."""
    others = others.sort("start_ns")
    latest = np.maximum.accumulate(others["end_ns"].to_numpy())
    at = np.searchsorted(others["start_ns"].to_numpy(), rows["end_ns"].to_numpy(), side="right") - 1
    return rows.filter(pl.Series((at >= 0) & (latest[np.maximum(at, 0)] >= rows["start_ns"].to_numpy()))) if len(latest) else rows[:0]


def _concurrent_loader(read: pl.DataFrame, whose: int) -> ConcurrentLoader:
    rows = read.filter(pl.col("whose") == whose)
    return ConcurrentLoader(iterators=_iterators(read, whose), num_workers=rows["num_workers"][-1] or 0)


def _iterators(read: pl.DataFrame, whose: int) -> tuple[int, ...]:
    return tuple(read.filter(pl.col("whose") == whose)["iterator"].to_list())
