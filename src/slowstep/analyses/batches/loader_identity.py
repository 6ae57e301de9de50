"""Which iterators are one loader's, where it is made anew for each epoch, and where loaders of the same make are read beside each other."""

from __future__ import annotations

from typing import cast

import polars as pl

from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.timeline import Timeline

MAKE = ("dataset", "batch_size", "collate", "num_workers")

Make = tuple[str | None, int | None, str | None, int | None]
Identity = tuple[object, ...]


def find_read(timeline: Timeline, trainer: Trainer) -> pl.DataFrame:
    """One row per iterator of a loader that the training reads, with when it was read and for how long it was waited for."""
    read = trainer.waits.group_by("iterator").agg(
        pl.col("start_ns").min(), pl.col("end_ns").max(), (pl.col("end_ns") - pl.col("start_ns")).sum().alias("waited_ns")
    )
    known = timeline.table("iterators").filter(pl.col("process") == trainer.process).unique("iterator", keep="last", maintain_order=True)
    return known.join(read, on="iterator", how="inner", maintain_order="left")


def find_loaders_framework(timeline: Timeline, trainer: Trainer) -> str | None:
    """Whose loaders feed the training, by the framework's name: of several that one's which is waited for most. None where nothing says."""
    read = find_read(timeline, trainer).filter(pl.col("framework").is_not_null())
    waited = read.group_by("framework").agg(pl.col("waited_ns").sum()).sort("waited_ns", "framework", descending=[True, False])
    return None if waited.is_empty() else str(waited["framework"][0])


def identities(read: pl.DataFrame) -> list[Identity]:
    """Of each row of `find_read` whose it is: equal for loaders of the same make of which one is read after the other.

    Its first values are those of MAKE, the last tells loaders of the same make from each other that are read in the same time.
    """
    make = {row["loader"]: tuple(row[name] for name in MAKE) for row in read.iter_rows(named=True)}
    spans = read.group_by("loader").agg(pl.col("start_ns").min(), pl.col("end_ns").max()).sort("start_ns", "loader")
    ends: dict[Identity, list[int]] = {}
    found: dict[int, Identity] = {}
    for loader, start_ns, end_ns in spans.iter_rows():
        # Made anew they come in the same order again: the first place that is free is that of the one that was in it before.
        taken = ends.setdefault(make[loader], [])
        place = next((number for number, end in enumerate(taken) if end <= start_ns), len(taken))
        taken[place : place + 1] = [end_ns]
        found[loader] = (*make[loader], place)
    return [found[loader] for loader in read["loader"].to_list()]


def loader_makes(timeline: Timeline, trainer: Trainer) -> dict[int, Make]:
    """Of each iterator in the training's process, of those that only validate too, what its loader is made of."""
    rows = timeline.table("iterators").filter(pl.col("process") == trainer.process)
    return dict(zip(rows["iterator"].to_list(), cast("list[Make]", rows.select(*MAKE).rows()), strict=True))
