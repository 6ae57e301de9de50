"""What ran on the devices, from an export of Nsight Systems."""

from __future__ import annotations

from typing import Final

import polars as pl

from slowstep.health import Health
from slowstep.sources._nsys.database import Database

KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
FILLS: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPHS: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
TABLES: Final = (KERNELS, COPIES, FILLS, GRAPHS)

# CUpti_ActivityMemcpyKind of NVIDIA's CUPTI documentation, with the copies of unified memory that Nsight Systems adds from 11 on.
COPY_KINDS: Final = {1: "h2d", 3: "h2d", 11: "h2d", 2: "d2h", 4: "d2h", 12: "d2h", 10: "p2p"} | dict.fromkeys((5, 6, 7, 8, 13), "d2d")
UNKNOWN_COPY: Final = 0
# ENUM_CUDA_MEM_KIND of the export (CUPTI's own numbers are one higher).
PAGEABLE, PINNED, DEVICE, ARRAY, DEVICE_STATIC = 0, 1, 2, 3, 5
# CUDA allows at most 255 registers per thread on every device (CUDA C++ Programming Guide, technical specifications per compute
# capability) and 1,024 threads in a block.
MOST_REGISTERS: Final = 255
MOST_THREADS: Final = 1024

_PLACE = {"device": "deviceId", "context": "contextId", "stream": "streamId", "start_ns": "start", "end_ns": "end"}
_COMMON = _PLACE | {"correlation": "correlationId", "node": "graphNodeId"}


def of_process(database: Database, table: str, process: int | None) -> str:
    """The SQL condition for the rows of one process, given by its serialized id; all rows where the table does not tell."""
    if process is None or not database.has(table, "globalPid"):
        return "1"
    return f'("globalPid" IS NULL OR "globalPid" = {process})'


def device_events(database: Database, process: int | None, strings: pl.DataFrame) -> tuple[pl.DataFrame, list[Health]]:
    """All work of one process on all devices, with the columns of `device_events` that the export tells, times as they are there."""
    kernels, health = _kernels(database, process, strings)
    copies, more = _copies(database, process)
    graphs = _graphs(database, process)
    if len(graphs):
        more.append(
            Health(
                name="graphs-traced-whole",
                severity="notice",
                count=len(graphs),
                remedy="kernels inside these CUDA graphs are not told apart; record with --cuda-graph-trace=node",
            )
        )
    events = pl.concat([kernels, copies, _fills(database, process), graphs], how="diagonal_relaxed")
    from_graph = pl.col("node").fill_null(0) != 0
    return _told_apart(events.with_columns(from_graph.alias("from_graph"))).drop("node"), [*health, *more]


def device_facts(database: Database, devices: pl.Series, pid: int | None) -> pl.DataFrame:
    """One row per device in `devices`: what the export tells of the product."""
    texts = {"name": "name"}
    numbers = {"gpu": "id", "memory_bytes": "totalMemory", "multiprocessors": "smCount", "major": "computeMajor", "minor": "computeMinor"}
    gpus = database.read("TARGET_INFO_GPU", numbers, texts).unique("gpu", keep="first")
    own = f'"pid" = {pid}' if pid is not None and database.has("TARGET_INFO_CUDA_DEVICE", "pid") else "1"
    links = database.read("TARGET_INFO_CUDA_DEVICE", {"gpu": "gpuId", "device": "cudaId"}, where=own).unique("device", keep="first")
    # Without the table that maps CUDA's numbers (CUDA_VISIBLE_DEVICES renumbers) the numbers are taken as they are.
    facts = links.join(gpus, on="gpu", how="left") if len(links) else gpus.with_columns(pl.col("gpu").alias("device"))
    capability = pl.col("major") + pl.col("minor") / 10
    found = devices.unique().sort().cast(pl.Int64).to_frame("device")
    return found.join(facts, on="device", how="left", maintain_order="left").with_columns(capability.alias("compute_capability"))


def _kernels(database: Database, process: int | None, strings: pl.DataFrame) -> tuple[pl.DataFrame, list[Health]]:
    numbers = _COMMON | {
        "name_id": "demangledName" if database.has(KERNELS, "demangledName") else "shortName",
        "registers": "registersPerThread",
        "blocks": "gridX * gridY * gridZ",
        "block_threads": "blockX * blockY * blockZ",
    }
    # Some exports carry the name itself.
    frame = database.read(KERNELS, numbers, {"own_name": "name"}, of_process(database, KERNELS, process))
    impossible = ~pl.col("registers").is_between(0, MOST_REGISTERS) | ~pl.col("block_threads").is_between(1, MOST_THREADS)
    frame = frame.join(strings, left_on="name_id", right_on="id", how="left", maintain_order="left").select(
        *_COMMON,
        pl.coalesce("value", "own_name").fill_null("(kernel without a name)").alias("name"),
        _within("registers", 0, MOST_REGISTERS),
        _within("block_threads", 1, MOST_THREADS),
        _within("blocks", 1, 2**62),
        pl.lit("kernel").alias("kind"),
        impossible.fill_null(False).alias("impossible"),
    )
    return frame.drop("impossible"), _garbage(int(frame["impossible"].sum()))


def _within(name: str, low: int, high: int) -> pl.Expr:
    return pl.when(pl.col(name).is_between(low, high)).then(name).alias(name)


def _garbage(count: int) -> list[Health]:
    if not count:
        return []
    remedy = "registers or threads of these kernels are beyond what a device has, and are taken as unknown; update the profiler"
    return [Health(name="impossible-kernel-shapes", severity="notice", count=count, remedy=remedy)]


def _copies(database: Database, process: int | None) -> tuple[pl.DataFrame, list[Health]]:
    numbers = _COMMON | {"bytes": "bytes", "copy": "copyKind", "from": "srcKind", "to": "dstKind"}
    frame = database.read(COPIES, numbers, where=of_process(database, COPIES, process))
    frame = frame.with_columns(_copy_kind().alias("kind"))
    host_side = pl.when(pl.col("kind") == "h2d").then("from").when(pl.col("kind") == "d2h").then("to")
    known = frame.filter(pl.col("kind").is_not_null()).select(
        *_COMMON,
        "kind",
        pl.format("Memcpy {}", pl.col("kind").replace(_COPY_NAMES)).alias("name"),
        _at_least_0("bytes"),
        pl.when(host_side == PAGEABLE).then(True).when(host_side == PINNED).then(False).alias("pageable"),
    )
    if len(known) == len(frame):
        return known, []
    remedy = "copies within the host, or of a kind that this version does not know, are left out"
    return known, [Health(name="copies-of-no-device", severity="info", count=len(frame) - len(known), remedy=remedy)]


_COPY_NAMES = {"h2d": "HtoD", "d2h": "DtoH", "d2d": "DtoD", "p2p": "PtoP"}


def _copy_kind() -> pl.Expr:
    """The direction of a copy: its kind, else by the memory on both sides."""
    on_host = {side: pl.col(side).is_in([PAGEABLE, PINNED]) for side in ("from", "to")}
    on_device = {side: pl.col(side).is_in([DEVICE, ARRAY, DEVICE_STATIC]) for side in ("from", "to")}
    by_memory = (
        pl.when(on_host["from"] & on_device["to"])
        .then(pl.lit("h2d"))
        .when(on_device["from"] & on_host["to"])
        .then(pl.lit("d2h"))
        .when(on_device["from"] & on_device["to"])
        .then(pl.lit("d2d"))
    )
    told = pl.col("copy").replace_strict(COPY_KINDS, default=None, return_dtype=pl.String)
    return pl.when(pl.col("copy").fill_null(UNKNOWN_COPY) == UNKNOWN_COPY).then(by_memory).otherwise(told)


def _fills(database: Database, process: int | None) -> pl.DataFrame:
    frame = database.read(FILLS, _COMMON | {"bytes": "bytes"}, where=of_process(database, FILLS, process))
    return frame.select(*_COMMON, _at_least_0("bytes"), pl.lit("memset").alias("kind"), pl.lit("Memset").alias("name"))


def _at_least_0(column: str) -> pl.Expr:
    return pl.when(pl.col(column) >= 0).then(column).alias(column)


def _graphs(database: Database, process: int | None) -> pl.DataFrame:
    """Whole CUDA graphs, where the profiler was not asked for their nodes: for the device they are one stretch of work."""
    frame = database.read(
        GRAPHS, _PLACE | {"correlation": "correlationId", "graph": "graphId"}, where=of_process(database, GRAPHS, process)
    )
    name = pl.format("CUDA graph {}", pl.col("graph").cast(pl.String).fill_null("?"))
    return frame.select(*_PLACE, "correlation", pl.lit(1).alias("node"), pl.lit("kernel").alias("kind"), name.alias("name"))


def _told_apart(events: pl.DataFrame) -> pl.DataFrame:
    """Streams of several contexts of one device may have the same number: those of the second get a million added, and so on."""
    context = pl.col("context").fill_null(0).rank("dense").over("device") - 1
    return events.with_columns(
        pl.col("device").fill_null(0), (pl.col("stream").fill_null(0) + context.cast(pl.Int64) * 1_000_000).alias("stream")
    ).drop("context")
