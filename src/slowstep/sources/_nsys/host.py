"""What ran on the host threads, from an export of Nsight Systems: API calls, NVTX ranges, the profiler's own work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from slowstep.sources._gathered import GatheredTable
from slowstep.sources._nsys.database import Database
from slowstep.timeline.intervals import Flags
from slowstep.timeline.trace_tables import HOST_KIND

CALLS: Final = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER")
RANGES: Final = "NVTX_EVENTS"
OVERHEAD: Final = ("CUPTI_ACTIVITY_KIND_OVERHEAD", "PROFILER_OVERHEAD")

# ENUM_NSYS_EVENT_TYPE of the export: ranges of a thread (push and pop) and free ones (start and end, perhaps on another thread). While a
# range is open, and in old exports, only its begin may be there.
NESTED_RANGES: Final = (59, 70, 35)
FREE_RANGES: Final = (60, 71, 37)

# What torch.autograd.profiler.emit_nvtx writes after a name: ", seq = 3, op_id = 17, sizes = [[2, 3]], input_op_ids = [...]".
PYTORCH_PARTS: Final = {", input_op_ids = ": "inputs", ", sizes = ": "shapes", ", op_id = ": "external", ", seq = ": "sequence"}
OPERATOR: Final = r"^(?:aten|autograd|torch|prims|c10d|nccl|quantized|torchvision)::"
NUMBERED_OPERATOR: Final = r"::|Backward\d*$"


def of_process(database: Database, table: str, process: int | None) -> str:
    """The SQL condition for the rows of one process in a table of thread ids.

    A serialized thread id is 8 bits of hardware, 8 of virtual machine, 24 of process, 24 of thread (NVIDIA's documentation of the export
    schema, "Serialized process and thread identifiers"); a serialized process id is the same with 0 as thread.
    """
    if process is None or not database.has(table, "globalTid"):
        return "1"
    return f'("globalTid" >> 24) = ({process} >> 24)'


def calls(database: Database, process: int | None, strings: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Calls of CUDA's runtime and driver: host events with the serialized thread id in `thread`."""
    numbers = {"thread": "globalTid", "start_ns": "start", "end_ns": "end", "correlation": "correlationId", "name_id": "nameId"}
    names = strings.select("id", _plain("value").alias("value"))
    for table in CALLS:
        where = of_process(database, table, process)
        yield from database.pieces(table, numbers, {"own_name": "name"}, where, lambda rows: _called(rows, names))


def _called(frame: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    # Names are few: cleaned and judged once per name.
    ids = frame.select("name_id", "own_name").unique().join(names, left_on="name_id", right_on="id", how="left")
    name = pl.coalesce("value", _plain("own_name")).fill_null("(call without a name)").alias("name")
    # "cuLaunchKernel" is the driver's, "cudaLaunchKernel" the runtime's.
    kind = pl.when(pl.col("name").str.contains("^cu[A-Z]")).then(pl.lit("driver")).otherwise(pl.lit("runtime"))
    ids = ids.select("name_id", "own_name", name).with_columns(pl.col("name").cast(pl.Categorical), kind.cast(HOST_KIND).alias("kind"))
    frame = frame.join(ids, on=["name_id", "own_name"], how="left", nulls_equal=True, maintain_order="left")
    return frame.select("thread", "start_ns", "end_ns", "correlation", "name", "kind")


def _plain(column: str) -> pl.Expr:
    """The name of a call without the version of CUDA that it appeared in: `cudaLaunchKernel_ptsz_v7000` is `cudaLaunchKernel`."""
    return pl.col(column).str.replace(r"(?:_ptsz|_ptds)?_v\d{4,5}$", "")


def ranges(database: Database, process: int | None, strings: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """NVTX ranges: host events, with `free` for those of start and end. Those that are open at the end have no `end_ns`."""
    numbers = {"thread": "globalTid", "start_ns": "start", "end_ns": "end", "type": "eventType", "text_id": "textId"}
    typed = database.has(RANGES, "eventType")
    where = of_process(database, RANGES, process)
    return database.pieces(RANGES, numbers, {"text": "text"}, where, lambda rows: _understood(rows, strings, typed=typed))


def _understood(rows: pl.DataFrame, strings: pl.DataFrame, *, typed: bool) -> pl.DataFrame:
    """Ranges with their names, operators and their numbers, out of rows with texts."""
    rows = rows.filter(pl.col("type").is_in([*NESTED_RANGES, *FREE_RANGES]) if typed else pl.col("end_ns").is_not_null())
    frame = rows.join(strings, left_on="text_id", right_on="id", how="left", maintain_order="left").select(
        "thread",
        "start_ns",
        "end_ns",
        pl.coalesce("text", "value").fill_null("(range without a name)").alias("name"),
        pl.col("type").is_in(FREE_RANGES).fill_null(False).alias("free"),
    )
    # From the last part to the first; splitting is several times as fast as one regular expression for all.
    for separator, part in PYTORCH_PARTS.items():
        parts = pl.col("name").str.splitn(separator, 2).struct.rename_fields(["name", part]).alias("parts")
        frame = frame.with_columns(parts).drop("name").unnest("parts")
    numbered = pl.col("sequence").is_not_null() | pl.col("external").is_not_null()
    frame = frame.with_columns(pl.col("name").cast(pl.Categorical), pl.col("shapes").cast(pl.Categorical), numbered.alias("numbered"))
    kinds = frame.select("name", "numbered").unique().with_columns(_kind(pl.col("name").cast(pl.String)).cast(HOST_KIND).alias("kind"))
    frame = frame.join(kinds, on=["name", "numbered"], how="left", maintain_order="left").drop("numbered", "inputs")
    sequence = pl.col("sequence").cast(pl.Int64, strict=False)
    return frame.with_columns(pl.when(sequence >= 0).then(sequence).alias("sequence"), pl.col("external").cast(pl.Int64, strict=False))


def _kind(name: pl.Expr) -> pl.Expr:
    operator = name.str.contains(OPERATOR) | (pl.col("numbered") & name.str.contains(NUMBERED_OPERATOR))
    return pl.when(operator).then(pl.lit("operator")).otherwise(pl.lit("annotation"))


def overhead(database: Database, process: int | None, strings: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The profiler's own work on the threads of the process, as host events."""
    numbers = {"thread": "globalTid", "start_ns": "start", "end_ns": "end", "name_id": "nameId"}
    name = pl.col("value").fill_null("profiler").cast(pl.Categorical).alias("name")
    columns = "thread", "start_ns", "end_ns", name, pl.lit("overhead", dtype=HOST_KIND).alias("kind")

    def understood(rows: pl.DataFrame) -> pl.DataFrame:
        return rows.join(strings, left_on="name_id", right_on="id", how="left", maintain_order="left").select(columns)

    for table in OVERHEAD:
        if database.has(table, "globalTid"):
            yield from database.pieces(table, numbers, where=of_process(database, table, process), each=understood)


def may_go(kind: pl.Series, hosts: GatheredTable) -> Iterator[Flags]:
    """Which host events are left out, in this order, where they do not nest; `hosts` holds their column `free`."""
    free = hosts.column("free").fill_null(False)
    yield (free | (kind == "overhead")).to_numpy()
    yield (kind == "annotation").to_numpy()
    yield (kind == "operator").to_numpy()
