"""The loader that feeds the training; of several that are read together, as by zip(), the one that it waits for most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from slowstep.analyses.functions import shown
from slowstep.analyses.trainer import Trainer
from slowstep.timeline.timeline import Timeline


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
    is_read_last: bool  # of those, right before the work: that is the one which levers change


def find_loader(timeline: Timeline, trainer: Trainer) -> Loader | None:
    """The loader, with the facts of its last iterator; None where no torch DataLoader feeds the training."""
    read = trainer.waits.group_by("iterator").agg(
        pl.col("start_ns").min(), pl.col("end_ns").max(), (pl.col("end_ns") - pl.col("start_ns")).sum().alias("waited_ns")
    )
    known = timeline.table("iterators").filter(pl.col("process") == trainer.process)
    rows = known.join(read, on="iterator", how="inner", maintain_order="left")
    if rows.is_empty():
        return None
    # Iterators of one loader, and loaders that are made anew for each epoch, follow one another.
    together = rows.filter(pl.col("start_ns") <= rows["end_ns"][-1], pl.col("end_ns") >= rows["start_ns"][-1])
    row = together.sort("waited_ns", maintain_order=True).row(-1, named=True)
    where = f"{shown(row['collate_file'], trainer.facts.script)}:{row['collate_line']}" if row["collate_file"] else None
    return Loader(
        num_workers=row["num_workers"] or 0,
        prefetch_factor=row["prefetch_factor"],
        batch_size=row["batch_size"],
        dataset=row["dataset"],
        collate=row["collate"],
        collate_file=row["collate_file"],
        collate_where=where,
        collate_is_default=row["collate_is_default"],
        read_together=together.height,
        is_read_last=_read_last(trainer, together["iterator"].to_list()) == row["iterator"],
    )


def _read_last(trainer: Trainer, iterators: list[int]) -> int:
    """Of iterators that are read together, the one whose batch most updates follow."""
    waits = trainer.waits.filter(pl.col("iterator").is_in(iterators))
    before = np.searchsorted(waits["end_ns"].to_numpy(), trainer.update_start_ns) - 1
    last = waits["iterator"].to_numpy()[before[before >= 0]]
    numbers, counts = np.unique(last, return_counts=True)
    return int(numbers[np.argmax(counts)]) if len(numbers) else iterators[-1]
