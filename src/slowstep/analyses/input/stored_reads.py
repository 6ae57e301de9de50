"""What making batches reads beside what it uses: chunks and tables that are read whole, in the batches that were looked at."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slowstep.analyses.steps.steps import Steps
from slowstep.timeline.timeline import Timeline

# So many looks within the window are enough: those before it meet caches that are still empty.
ENOUGH_LOOKS = 3

_PLACE = ("library", "reader", "file", "function", "first_line", "line")


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredRead:
    """A line of the script's whose call of a library reads something whole; of all looks together.

    `chunk`: the lengths of a chunk, or the rows of a table. `selected` and `used_bytes` are None of what is always read whole.
    """

    library: str
    reader: str
    file: str
    function: str
    first_line: int
    line: int
    chunk: tuple[int, ...]
    selected: tuple[int, ...] | None
    calls: int
    calls_per_sample: float | None
    inflating: float  # share of the calls that read, and found nothing kept by the library
    in_looks: float  # share of the looks in which it read
    inflated_bytes: float
    used_bytes: float | None
    share: float  # of making batches


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredReads:
    """`looks`: batches that were looked at, and their `samples` (None: not known). `found`: most time first."""

    looks: int
    samples: int | None
    found: tuple[StoredRead, ...]


def find_stored_reads(timeline: Timeline, producers: list[int], steps: Steps) -> StoredReads | None:
    """By the looks at batches that these processes made; None where none was taken."""
    rows = timeline.table("stored_reads").filter(pl.col("process").is_in(producers))
    inside = rows.filter(pl.col("time_ns").is_between(int(steps.edges_ns[0]), int(steps.edges_ns[-1])))
    rows = inside if inside.select("process", "time_ns").n_unique() >= ENOUGH_LOOKS else rows
    if rows.is_empty():
        return None
    looks = rows.unique(["process", "time_ns"])
    samples = None if looks["samples"].null_count() else int(looks["samples"].sum())
    # Of what is always read whole no two need be as long.
    stored_so = pl.when(pl.col("selected").is_not_null()).then(pl.col("chunk").cast(pl.List(pl.String)).list.join("x"))
    places = rows.filter(pl.col("library").is_not_null()).with_columns(stored_so=stored_so)
    groups = places.partition_by(*_PLACE, "stored_so", maintain_order=True)
    found = [_found(group, looks, samples) for group in groups]
    return StoredReads(looks=looks.height, samples=samples, found=tuple(sorted(found, key=lambda read: -read.share)))


def _found(rows: pl.DataFrame, looks: pl.DataFrame, samples: int | None) -> StoredRead:
    first = rows.row(0, named=True)
    calls, inflating = int(rows["calls"].sum()), int(rows["inflating"].sum())
    reading = rows.filter(pl.col("inflating") > 0).select("process", "time_ns").unique()
    return StoredRead(
        **{name: first[name] for name in _PLACE},
        chunk=tuple(first["chunk"]),
        selected=None if first["selected"] is None else tuple(first["selected"]),
        calls=calls,
        calls_per_sample=calls / samples if samples else None,
        inflating=inflating / max(calls, 1),
        in_looks=reading.height / looks.height,
        inflated_bytes=float(rows["inflated_bytes"].sum()),
        used_bytes=None if rows["used_bytes"].null_count() else float(rows["used_bytes"].sum()),
        share=min(int(rows["total_ns"].sum()) / max(int(looks["wall_ns"].sum()), 1), 1.0),
    )
