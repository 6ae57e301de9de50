"""What ran on the devices, from an export of Nsight Systems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import polars as pl

from slowstep.health import Health, HealthKind
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


def device_events(database: Database, process: int | None, strings: pl.DataFrame, counts: Counter[str]) -> Iterator[pl.DataFrame]:
    """All work of one process on all devices, with the columns of `device_events` that the export tells and `context`; times, and numbers
    of streams, as they are there. `counts` takes what is doubtful.
    """
    from_graph = pl.col("node").fill_null(0) != 0
    placed = (
        from_graph.alias("from_graph"),
        pl.col("device").cast(pl.Int32, strict=False).cast(pl.Int64).fill_null(0),
        pl.col("stream").fill_null(0),
        pl.col("context").fill_null(0),
    )
    for frame in _kernels(database, process, strings):
        counts["impossible"] += int(frame["impossible"].sum())
        yield frame.with_columns(placed)
    for frame in _copies(database, process):
        known = frame.filter(pl.col("kind").is_not_null())
        counts["elsewhere"] += len(frame) - len(known)
        yield known.with_columns(placed)
    for frame in _fills(database, process):
        yield frame.with_columns(placed)
    for frame in _graphs(database, process):
        counts["graphs"] += len(frame)
        yield frame.with_columns(placed)


def doubts(counts: Counter[str]) -> list[Health]:
    """What is said of what `device_events` counted."""
    return [kind(counts[what]) for what, kind in _DOUBTS.items() if counts[what]]


_DOUBTS: Final[dict[str, HealthKind]] = {
    "impossible": HealthKind(
        "impossible-kernel-shapes",
        "notice",
        "registers or threads of these kernels are beyond what a device has, and are taken as unknown; update the profiler",
    ),
    "elsewhere": HealthKind(
        "copies-of-no-device",
        "info",
        "copies within the host, or of a kind that this version does not know, are left out",
    ),
    "graphs": HealthKind(
        "graphs-traced-whole",
        "notice",
        "kernels inside these CUDA graphs are not distinguished; record with --cuda-graph-trace=node",
    ),
}


def unique_streams(device: pl.Series, stream: pl.Series, context: pl.Series) -> pl.Series:
    """Numbers of streams, all of shape (n,). Streams of several contexts of one device may have the same number: those of the second get a
    million added, and so on.
    """
    pairs = pl.DataFrame({"device": device, "context": context}).unique()
    if pairs["device"].is_unique().all():
        return stream
    pairs = pairs.with_columns((pl.col("context").rank("dense").over("device") - 1).cast(pl.Int64).alias("number"))
    rows = pl.DataFrame({"device": device, "context": context, "stream": stream}).join(
        pairs, on=["device", "context"], how="left", maintain_order="left"
    )
    return rows.select(pl.col("stream") + pl.col("number") * 1_000_000)["stream"]


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


def _kernels(database: Database, process: int | None, strings: pl.DataFrame) -> Iterator[pl.DataFrame]:
    numbers = _COMMON | {
        "name_id": "demangledName" if database.has(KERNELS, "demangledName") else "shortName",
        "registers": "registersPerThread",
        "blocks": "gridX * gridY * gridZ",
        "block_threads": "blockX * blockY * blockZ",
    }
    impossible = ~pl.col("registers").is_between(0, MOST_REGISTERS) | ~pl.col("block_threads").is_between(1, MOST_THREADS)

    def understood(rows: pl.DataFrame) -> pl.DataFrame:
        return rows.join(strings, left_on="name_id", right_on="id", how="left", maintain_order="left").select(
            *_COMMON,
            pl.coalesce("value", "own_name").fill_null("(kernel without a name)").cast(pl.Categorical).alias("name"),
            _within("registers", 0, MOST_REGISTERS),
            _within("block_threads", 1, MOST_THREADS),
            _within("blocks", 1, 2**62),
            pl.lit("kernel").alias("kind"),
            impossible.fill_null(False).alias("impossible"),
        )

    # Some exports carry the name itself.
    return database.pieces(KERNELS, numbers, {"own_name": "name"}, of_process(database, KERNELS, process), understood)


def _within(name: str, low: int, high: int) -> pl.Expr:
    return pl.when(pl.col(name).is_between(low, high)).then(name).alias(name)


def _copies(database: Database, process: int | None) -> Iterator[pl.DataFrame]:
    """Copies; those within the host, and those of a kind that is not known, have no `kind`."""
    numbers = _COMMON | {"bytes": "bytes", "copy": "copyKind", "from": "srcKind", "to": "dstKind"}
    host_side = pl.when(pl.col("kind") == "h2d").then("from").when(pl.col("kind") == "d2h").then("to")

    def understood(rows: pl.DataFrame) -> pl.DataFrame:
        return rows.with_columns(_copy_kind().alias("kind")).select(
            *_COMMON,
            "kind",
            pl.format("Memcpy {}", pl.col("kind").replace(_COPY_NAMES)).alias("name"),
            _at_least_0("bytes"),
            pl.when(host_side == PAGEABLE).then(True).when(host_side == PINNED).then(False).alias("pageable"),
        )

    return database.pieces(COPIES, numbers, where=of_process(database, COPIES, process), each=understood)


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


def _fills(database: Database, process: int | None) -> Iterator[pl.DataFrame]:
    columns = [*map(pl.col, _COMMON), _at_least_0("bytes"), pl.lit("memset").alias("kind"), pl.lit("Memset").alias("name")]
    where = of_process(database, FILLS, process)
    return database.pieces(FILLS, _COMMON | {"bytes": "bytes"}, where=where, each=lambda rows: rows.select(columns))


def _at_least_0(column: str) -> pl.Expr:
    return pl.when(pl.col(column) >= 0).then(column).alias(column)


def _graphs(database: Database, process: int | None) -> Iterator[pl.DataFrame]:
    """Whole CUDA graphs, where the profiler was not asked for their nodes: for the device they are one stretch of work."""
    name = pl.format("CUDA graph {}", pl.col("graph").cast(pl.String).fill_null("?")).alias("name")
    columns = [*map(pl.col, _PLACE), pl.col("correlation"), pl.lit(1).alias("node"), pl.lit("kernel").alias("kind"), name]
    numbers = _PLACE | {"correlation": "correlationId", "graph": "graphId"}
    return database.pieces(GRAPHS, numbers, where=of_process(database, GRAPHS, process), each=lambda rows: rows.select(columns))
