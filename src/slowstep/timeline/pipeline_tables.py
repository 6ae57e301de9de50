"""The tables of input pipelines that a framework runs in threads of its own, and counts stage by stage."""

from __future__ import annotations

import polars as pl

from slowstep.timeline.process_columns import PROCESS, TIME
from slowstep.timeline.table import Table, column

PIPELINE = column("pipeline", pl.Int64, "number of the pipeline in its process")
STAGE = column("stage", pl.Int64, "number of the stage, 0 the last one")

PIPELINE_TABLES: tuple[Table, ...] = (
    Table(
        name="pipelines",
        row="One row per iterator over a pipeline that feeds a training.",
        columns=(
            PROCESS,
            PIPELINE,
            column(
                "iterator", pl.Int64, "number of the iterator whose waits are recorded; null where a compiled call reads it", nullable=True
            ),
            column("unread", pl.String, "why nothing was counted, or no more from then on", nullable=True),
        ),
    ),
    Table(
        name="pipeline_stages",
        row="One row per stage of a pipeline as the script wrote it.",
        columns=(
            PROCESS,
            PIPELINE,
            STAGE,
            column("kind", pl.String, "what it does: Map, Batch, ..."),
            column("into", pl.Int64, "number of the stage that reads it; null of the last one", nullable=True),
            column("generator", pl.Boolean, "its elements are made by a generator in Python"),
            column("reads", pl.String, "class of the loader that this generator reads", nullable=True),
            column("loops", pl.Boolean, "its function goes over the parts of an element one by one, in a loop of the framework's"),
        ),
    ),
    Table(
        name="pipeline_functions",
        row="One row per function that a stage of a pipeline was given, or that runs in Python for each of its elements.",
        columns=(
            PROCESS,
            PIPELINE,
            STAGE,
            column("in_python", pl.Boolean, "Python runs it for each element; else it was traced once"),
            column("name", pl.String, "its qualified name"),
            column("file", pl.String, "its source file"),
            column("first_line", pl.Int64, "line where it begins"),
        ),
    ),
    Table(
        name="pipeline_nodes",
        row="One row per stage of a pipeline as it runs, and reading of what it has counted so far.",
        columns=(
            PROCESS,
            PIPELINE,
            TIME,
            column("node", pl.Int64, "number of the stage among those that run"),
            column("name", pl.String, "what it does, after the framework has changed the graph"),
            column("inputs", pl.List(pl.Int64), "numbers of the stages that it reads"),
            column("elements", pl.Int64, "elements that it has given"),
            column("busy_ns", pl.Int64, "time in it, without that in its inputs; of all its threads together"),
            column("buffered", pl.Int64, "elements that lie ready in it"),
            column("bytes", pl.Int64, "bytes of the elements that it has given"),
            column(
                "ratio", pl.Float64, "elements that it takes of its first input for each that it gives; null where unknown", nullable=True
            ),
            column(
                "parallelism", pl.Int64, "how many calls of its function it makes at once; null where that cannot be set", nullable=True
            ),
            column("parallelism_tuned", pl.Boolean, "the framework chooses that; null where it cannot be set", nullable=True),
            column("buffer_size", pl.Int64, "elements that it makes ahead; null where it makes none", nullable=True),
        ),
    ),
)
