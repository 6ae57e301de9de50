"""Numbers that join host and device: correlations, operators' numbers, and what one side knows of the other."""

from __future__ import annotations

import re
from collections import Counter

import polars as pl

from slowstep.sources._kineto.columns import Columns
from slowstep.sources._kineto.events import NULL

# An operator's number and a launch's correlation come from two counters. Where they are the same on nearly all device events, the profiler
# wrote the correlation into both fields, as in the traces of 2022 and 2023 in tests/data/kineto.
REPEATED_AT_LEAST = 0.99
# Above all correlations that profilers give out, which are 32 bits wide.
_PROCESS_SHIFT = 40
_GRAPH_LAUNCH = re.compile(r"graph_?launch", re.IGNORECASE)


def clean_keys(
    hosts: pl.DataFrame, devices: pl.DataFrame, threads: pl.DataFrame, columns: Columns, counts: Counter[str]
) -> dict[str, pl.DataFrame]:
    """Host and device events whose keys mean what their columns say, without repeated rows."""
    hosts = hosts.with_columns(sequence=pl.when(pl.col("sequence") >= 0).then("sequence"))
    hosts, devices = (_without_zero(table) for table in (hosts, devices))
    hosts, devices = _externals(hosts, devices, counts)
    hosts = _unrepeated(hosts, ["thread", "start_ns", "end_ns", "name", "correlation", "external"], counts)
    devices = _unrepeated(devices, ["device", "stream", "start_ns", "end_ns", "name", "correlation", "external"], counts)
    hosts, devices = _by_process(hosts, devices, threads, counts)
    devices = _collectives(_sizes(_graphs(hosts, devices, columns), columns), columns)
    return {"host_events": hosts, "device_events": devices}


def _without_zero(table: pl.DataFrame) -> pl.DataFrame:
    """A correlation of 0 or below is none: profilers write it where they know no launch."""
    return table.with_columns(correlation=pl.when(pl.col("correlation") > 0).then("correlation"))


def _externals(hosts: pl.DataFrame, devices: pl.DataFrame, counts: Counter[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """No operator's number on calls and device events where it is only the correlation once more: that is how it is written outside of any
    operator, and by some versions always."""
    repeats = pl.col("external") == pl.col("correlation")
    both = devices.lazy().filter(pl.col("external").is_not_null(), pl.col("correlation").is_not_null())
    if (both.select(repeats.mean()).collect().item() or 0) >= REPEATED_AT_LEAST:
        counts["external-repeats"] += len(devices)
    kept = pl.when(~repeats.fill_null(False)).then("external")
    return hosts.with_columns(external=kept), devices.with_columns(external=kept)


def _unrepeated(table: pl.DataFrame, keys: list[str], counts: Counter[str]) -> pl.DataFrame:
    """Rows that are there once; of rows without any number, equal times prove nothing."""
    tied = (pl.col("start_ns") == pl.col("start_ns").shift(1)) | (pl.col("start_ns") == pl.col("start_ns").shift(-1))
    numbered = pl.col("correlation").is_not_null() | pl.col("external").is_not_null()
    suspects = table.lazy().with_row_index("row").filter(tied, numbered).select("row", *keys).collect()
    repeated = suspects.filter(~pl.struct(keys).is_first_distinct())["row"]
    if not len(repeated):
        return table
    counts["duplicates"] += len(repeated)
    kept = pl.Series("kept", [True]).new_from_index(0, len(table)).scatter(repeated, False)
    return table.filter(kept)


def _by_process(
    hosts: pl.DataFrame, devices: pl.DataFrame, threads: pl.DataFrame, counts: Counter[str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Correlations that two processes use are told apart: a device event belongs to the last launch of that number before it."""
    if threads["pid"].n_unique() < 2:
        return hosts, devices
    calls = hosts.lazy().filter(pl.col("correlation").is_not_null()).join(threads.lazy().select("thread", "pid"), on="thread")
    shared = calls.group_by("correlation").agg(pl.col("pid").n_unique().alias("processes")).filter(pl.col("processes") > 1).collect()
    if shared.is_empty():
        return hosts, devices
    numbers = threads.select("thread", process=pl.col("pid").rank("dense").cast(pl.Int64) - 1)
    is_shared = pl.col("correlation").is_in(shared["correlation"].implode())
    own = pl.col("correlation") + pl.col("process").fill_null(0) * 2**_PROCESS_SHIFT
    renamed = hosts.join(numbers, on="thread", how="left", maintain_order="left")
    launches = renamed.filter(is_shared).select("correlation", "start_ns", own=own).sort("start_ns")
    counts["shared-correlations"] = len(shared)
    devices = devices.sort("start_ns").join_asof(launches, on="start_ns", by="correlation", strategy="backward", check_sortedness=False)
    devices = devices.with_columns(correlation=pl.when(is_shared).then("own").otherwise("correlation")).drop("own")
    return renamed.with_columns(correlation=pl.when(is_shared).then(own).otherwise("correlation")).drop("process"), devices


def _graphs(hosts: pl.DataFrame, devices: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """Kernels whose launch launched a graph, also where the profiler gave no graph node."""
    graph = [name for name in columns.names if _GRAPH_LAUNCH.search(name)]
    if not graph:
        return devices
    calls = hosts.lazy().filter(pl.col("correlation").is_not_null())
    launched = calls.filter(pl.col("name").cast(pl.String).is_in(graph)).select("correlation").collect()["correlation"]
    return devices.with_columns(from_graph=pl.col("from_graph") | pl.col("correlation").is_in(launched.implode()).fill_null(False))


def _sizes(devices: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """Bytes of a copy that only the call says (ROCm)."""
    if not columns.copied_bytes:
        return devices
    told = pl.DataFrame({"correlation": list(columns.copied_bytes), "told": list(columns.copied_bytes.values())})
    joined = devices.join(told, on="correlation", how="left", maintain_order="left")
    wanted = (pl.col("kind") != "kernel") & pl.col("bytes").is_null() & (pl.col("told") > 0)
    return joined.with_columns(bytes=pl.when(wanted).then("told").otherwise("bytes")).drop("told")


def _collectives(devices: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """What a collective's operator says of it, where its kernel does not (before PyTorch 2.4)."""
    if not columns.collective_operators:
        return devices
    names = list(columns.collectives)
    rows = [
        (external, names[code], None if size == NULL else size, None if group == NULL else group)
        for external, (code, size, group) in columns.collective_operators.items()
    ]
    schema = {"external": pl.Int64, "operation": pl.Categorical, "size": pl.Int64, "group": pl.Int32}
    told = pl.DataFrame(rows, schema=schema, orient="row", strict=False)
    joined = devices.join(told, on="external", how="left", maintain_order="left")
    wanted = (pl.col("kind") == "kernel") & pl.col("collective").is_null() & pl.col("operation").is_not_null()
    filled = {"collective": "operation", "bytes": "size", "group_size": "group"}
    made = {column: pl.when(wanted).then(source).otherwise(column) for column, source in filled.items()}
    return joined.with_columns(**made).drop("operation", "size", "group")
