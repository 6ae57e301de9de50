"""The loader that feeds the training; of several that are read together, as by zip(), the one that it waits for most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from slowstep.analyses.functions import shown
from slowstep.analyses.trainer import Trainer
from slowstep.timeline.timeline import Timeline

# A loader that is waited for twice as long as all that are read beside it together is the one waited for most in other steps, too.
SURELY_MOST: Final = 2 / 3


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

    @property
    def is_surely_most_waited_for(self) -> bool:
        """Whether an experiment, in which the training itself tells by other steps which loader it waits for most, means this one too."""
        return self.waited_share >= SURELY_MOST


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
        waited_share=row["waited_ns"] / max(together["waited_ns"].sum(), 1) if together.height > 1 else 1.0,
    )
