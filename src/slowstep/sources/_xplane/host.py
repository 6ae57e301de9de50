"""The host threads of an XPlane file, and the steps that they mark."""

from __future__ import annotations

from typing import Final

import polars as pl

from slowstep.sources._xplane.plane import Piece, Plane

HOST_PLANE: Final = "/host:CPU"
# A step of jax.profiler.StepTraceAnnotation or tf.profiler.experimental.Trace: a number, and the mark of a root event. Keras' callback
# writes the number without that mark, under a fixed name.
NUMBER, ROOT, KERAS_STEP = "step_num", "_r", "Profiled batch"
STEP_NUM, PROFILED_BATCH = "step_num", KERAS_STEP

# Names decide the kind, as nothing else does. CUDA's and HIP's runtime, CUDA's driver; functions of Python's own tracer ("$file.py:12 f");
# what the profiler writes about thread pools and the ends of XLA's thunks; operations of TensorFlow ("path/of/node:Type").
_RUNTIME: Final = r"^(?:cuda|hip)[A-Z]\w*$"
_DRIVER: Final = r"^cu[A-Z]\w*$"
_PYTHON: Final = r"^\$"
_OVERHEAD: Final = r"^(?:ThreadpoolListener::|end: )"
_OPERATOR: Final = r"^[^:]+:[A-Z]\w*$"

COLUMNS: Final = {
    "thread": pl.Int32,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "name": pl.Categorical,
    "kind": pl.String,
    "correlation": pl.Int64,
}
STEP_COLUMNS: Final = {
    "number": pl.Int64,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "thread": pl.Int32,
    "mark": pl.String,
    "name": pl.String,
}


def is_host(plane: Plane) -> bool:
    """Whether a plane holds host threads."""
    return plane.name == HOST_PLANE


def host_events(piece: Piece, thread: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Events of one thread (`COLUMNS`), and those of them that may be steps (`STEP_COLUMNS`)."""
    facts = piece.facts("correlation_id", NUMBER, ROOT, "hlo_op")
    rows = pl.DataFrame({"start_ns": piece.start_ns, "end_ns": piece.end_ns, "name": piece.names()})
    rows = rows.with_columns(
        pl.lit(thread, dtype=pl.Int32).alias("thread"),
        _at(facts["correlation_id"], len(piece)).alias("correlation"),
        _among(facts["hlo_op"], len(piece)).alias("from_xla"),
    )
    events = _kinds(rows).select(*COLUMNS)
    return events, _steps(rows, facts[NUMBER], facts[ROOT])


def chosen_steps(steps: pl.DataFrame) -> pl.DataFrame:
    """Of everything that looks like a step, the steps: one mark, one name, one thread; those that cover most time, steps before batches."""
    if steps.is_empty():
        return steps
    length = (pl.col("end_ns") - pl.col("start_ns")).sum().alias("length")
    groups = steps.group_by("mark", "name", "thread", maintain_order=True).agg(length)
    best = groups.sort(pl.col("mark") == STEP_NUM, "length", descending=True, maintain_order=True).head(1)
    return steps.join(best, on=["mark", "name", "thread"], nulls_equal=True, how="semi").sort("start_ns")


def _kinds(rows: pl.DataFrame) -> pl.DataFrame:
    names = rows.select("name").unique().with_columns(pl.col("name").cast(pl.String).alias("text"))
    text = pl.col("text").str
    kind = (
        pl.when(text.contains(_RUNTIME))
        .then(pl.lit("runtime"))
        .when(text.contains(_DRIVER))
        .then(pl.lit("driver"))
        .when(text.contains(_PYTHON))
        .then(pl.lit("python"))
        .when(text.contains(_OVERHEAD))
        .then(pl.lit("overhead"))
        .when(text.contains(_OPERATOR))
        .then(pl.lit("operator"))
        .otherwise(pl.lit("annotation"))
    )
    rows = rows.join(names.select("name", kind.alias("by_name")), on="name", how="left", maintain_order="left")
    # Without a device, XLA's thunks run on the host and say which operation they are.
    thunk = pl.col("from_xla") & (pl.col("by_name") == "annotation")
    return rows.with_columns(pl.when(thunk).then(pl.lit("operator")).otherwise("by_name").alias("kind"))


def _steps(rows: pl.DataFrame, numbers: dict[int, object], roots: dict[int, object]) -> pl.DataFrame:
    found = [
        (number, at, STEP_NUM if at in roots else PROFILED_BATCH)
        for at, number in numbers.items()
        if _fits(number) and (at in roots or rows["name"][at] == KERAS_STEP)
    ]
    if not found:
        return pl.DataFrame(schema=STEP_COLUMNS)
    marked = rows[[at for _, at, _ in found]].with_columns(
        pl.Series("number", [number for number, _, _ in found], dtype=pl.Int64, strict=False),
        pl.Series("mark", [mark for _, _, mark in found]),
        pl.col("name").cast(pl.String),
    )
    return marked.select(*STEP_COLUMNS)


def _fits(value: object) -> bool:
    """Whether it is a whole number of 64 bits."""
    return isinstance(value, int) and -(2**63) <= value < 2**63


def _at(values: dict[int, object], length: int) -> pl.Series:
    column: list[object] = [None] * length
    for position, value in values.items():
        column[position] = value if _fits(value) else None
    return pl.Series(column, dtype=pl.Int64)


def _among(values: dict[int, object], length: int) -> pl.Series:
    column = [False] * length
    for position in values:
        column[position] = True
    return pl.Series(column, dtype=pl.Boolean)
