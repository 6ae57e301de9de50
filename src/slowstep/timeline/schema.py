"""The tables of a timeline, declared once: row meaning, columns, types, units.

A source fills these tables and states by nulls what it cannot know. Analyses read nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One column: its name (with the unit in it where it has one), type, meaning, and whether a value may be unknown."""

    name: str
    type: type[pl.DataType]
    meaning: str
    nullable: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """One table: `row` says in one sentence what a row is."""

    name: str
    row: str
    columns: tuple[Column, ...] = field(default=())

    @property
    def schema(self) -> dict[str, type[pl.DataType]]:
        """The column types in the form that polars takes."""
        return {column.name: column.type for column in self.columns}

    def empty(self) -> pl.DataFrame:
        """The table without rows: what a source that saw none of these hands over."""
        return pl.DataFrame(schema=self.schema)


def _column(name: str, kind: type[pl.DataType], meaning: str, *, nullable: bool = False) -> Column:
    return Column(name=name, type=kind, meaning=meaning, nullable=nullable)


PROCESS = _column("process", pl.Int32, "index of the process in `processes`")
THREAD = _column("thread", pl.UInt32, "native thread id")
START = _column("start_ns", pl.Int64, "when it began, CLOCK_MONOTONIC")
END = _column("end_ns", pl.Int64, "when it ended, CLOCK_MONOTONIC")
TIME = _column("time_ns", pl.Int64, "when it was taken, CLOCK_MONOTONIC")
FAILED = _column("failed", pl.Boolean, "the call raised")
ITERATOR = _column("iterator", pl.Int64, "number of the loader's iterator in its process")
BATCH = _column("batch", pl.Int64, "index of the batch in its iterator's order")
SPAN = (PROCESS, THREAD, START, END)

TABLES: tuple[Table, ...] = (
    Table(
        name="processes",
        row="One row per recorded process.",
        columns=(
            PROCESS,
            _column("pid", pl.Int64, "process id"),
            _column("parent_pid", pl.Int64, "process id of its parent", nullable=True),
            _column("role", pl.String, "trainer, worker or launcher"),
            _column("started_ns", pl.Int64, "when recording began in it", nullable=True),
            _column("ended", pl.Boolean, "it closed its recording itself (was not killed)"),
        ),
    ),
    Table(
        name="iterators",
        row="One row per iterator that a loader made.",
        columns=(
            PROCESS,
            ITERATOR,
            _column("loader", pl.Int64, "number of the loader in its process"),
            _column("num_workers", pl.Int64, "worker processes of the loader"),
            _column("prefetch_factor", pl.Int64, "batches asked for ahead per worker", nullable=True),
            _column("batch_size", pl.Int64, "batch size the loader was given", nullable=True),
            _column("workers", pl.List(pl.Int64), "process ids of its workers"),  # type: ignore[arg-type]
            _column("dataset", pl.String, "type name of the dataset", nullable=True),
            _column("collate", pl.String, "qualified name of the collate function", nullable=True),
            _column("collate_file", pl.String, "file of the collate function", nullable=True),
            _column("collate_line", pl.Int64, "first line of the collate function", nullable=True),
            _column("collate_is_default", pl.Boolean, "the framework's own collate function", nullable=True),
        ),
    ),
    Table(
        name="waits",
        row="One row per request for a next batch.",
        columns=(
            *SPAN,
            ITERATOR,
            BATCH,
            _column("samples", pl.Int64, "samples in the batch (leading dimension)", nullable=True),
            _column("ready", pl.Int64, "batches that were ready when it was asked for", nullable=True),
            _column("exhausted", pl.Boolean, "the iterator had no more batches"),
            FAILED,
            _column("validation", pl.Boolean, "marked as no training input"),
        ),
    ),
    Table(
        name="starts",
        row="One row per iterator made (worker start-up included).",
        columns=(
            *SPAN,
            ITERATOR,
            _column("loader", pl.Int64, "number of the loader in its process"),
            _column("num_workers", pl.Int64, "worker processes of the loader"),
        ),
    ),
    Table(
        name="updates",
        row="One row per optimizer call.",
        columns=(
            *SPAN,
            _column("optimizer", pl.Int64, "number of the optimizer in its process"),
            _column("skipped", pl.Boolean, "left out by GradScaler"),
        ),
    ),
    Table(
        name="spans",
        row="One row per other named stretch of a thread: backward, forward, checkpoint, user's span.",
        columns=(
            *SPAN,
            _column("kind", pl.String, "backward, forward, save or span"),
            _column("name", pl.String, "what it is called", nullable=True),
            _column("stage", pl.String, "stage that its author gave it", nullable=True),
            _column("samples", pl.Int64, "samples in it (forward)", nullable=True),
            _column("module", pl.Int64, "which root module it is of (forward)", nullable=True),
            _column("gradients", pl.Boolean, "gradients were on (forward)", nullable=True),
            _column("bytes", pl.Int64, "bytes written (save)", nullable=True),
            _column("file", pl.String, "file of the user's function that the span is, where a framework named it", nullable=True),
            _column("line", pl.Int64, "first line of that function", nullable=True),
        ),
    ),
    Table(
        name="fetches",
        row="One row per batch made by a producer.",
        columns=(
            *SPAN,
            _column("iterator", pl.Int64, "number of the iterator where the producer knows it", nullable=True),
            BATCH,
            _column("samples", pl.Int64, "samples asked for", nullable=True),
            _column("cpu_ns", pl.Int64, "CPU time of the producing thread"),
            _column("other_cpu_ns", pl.Int64, "CPU time of the process's other threads meanwhile", nullable=True),
            _column("delay_ns", pl.Int64, "run-queue delay of the producing thread", nullable=True),
            _column("read_bytes", pl.Int64, "bytes that read calls returned to the process", nullable=True),
            _column("storage_bytes", pl.Int64, "bytes that came from storage", nullable=True),
            FAILED,
            _column("profiled", pl.Boolean, "its calls were timed, so it took longer than it would have"),
        ),
    ),
    Table(
        name="collates",
        row="One row per collate call (inside a fetch).",
        columns=(
            *SPAN,
            _column("cpu_ns", pl.Int64, "CPU time of the thread"),
            _column("bytes", pl.Int64, "size of the batch made", nullable=True),
        ),
    ),
    Table(name="idles", row="One row per stretch in which a worker had nothing to make.", columns=SPAN),
    Table(
        name="cpu_marks",
        row="One row per reading of a thread's own clock.",
        columns=(
            PROCESS,
            THREAD,
            TIME,
            _column("cpu_ns", pl.Int64, "CPU time used so far"),
            _column("delay_ns", pl.Int64, "run-queue delay so far"),
        ),
    ),
    Table(
        name="stacks",
        row="One row per stack taken of a thread.",
        columns=(
            PROCESS,
            THREAD,
            TIME,
            _column("stack", pl.Int64, "number of the stack in its process"),
            _column("weight_ns", pl.Int64, "time since the stack before"),
            _column("lateness_ns", pl.Int64, "how late the sampler was"),
        ),
    ),
    Table(
        name="frames",
        row="One row per frame of each distinct stack, root first.",
        columns=(
            PROCESS,
            _column("stack", pl.Int64, "number of the stack in its process"),
            _column("depth", pl.Int64, "0 is the root"),
            _column("file", pl.String, "source file"),
            _column("function", pl.String, "function name"),
            _column("first_line", pl.Int64, "line where the function begins"),
            _column("line", pl.Int64, "line that was executed"),
        ),
    ),
    Table(
        name="calls",
        row="One row per function whose calls were timed, over all timed stretches of its kind.",
        columns=(
            PROCESS,
            _column("kind", pl.String, "what was timed: fetch"),
            _column("number", pl.Int64, "number of the function among its process's of this kind"),
            _column("file", pl.String, "source file"),
            _column("function", pl.String, "function name"),
            _column("first_line", pl.Int64, "line where the function begins"),
            _column("total_ns", pl.Int64, "time in it and in what it called"),
            _column("own_ns", pl.Int64, "time in it and in built-in functions"),
            _column("stretches", pl.Int64, "stretches that were timed"),
        ),
    ),
    Table(
        name="call_edges",
        row="One row per pair of functions of which one called the other.",
        columns=(
            PROCESS,
            _column("kind", pl.String, "what was timed"),
            _column("caller", pl.Int64, "number of the calling function"),
            _column("callee", pl.Int64, "number of the called function"),
            _column("total_ns", pl.Int64, "time of those calls"),
        ),
    ),
    Table(
        name="readings",
        row="One row per reading of the machine's processors by the launcher.",
        columns=(
            TIME,
            _column("tree_cpu_ns", pl.Int64, "CPU time of the training's process tree so far"),
            _column("busy_cpu_ns", pl.Int64, "CPU time of everybody so far"),
            _column("stolen_cpu_ns", pl.Int64, "CPU time that the hypervisor took so far"),
        ),
    ),
    Table(
        name="launcher_costs",
        row="One row per reading of what slowstep's own process beside the training costs.",
        columns=(TIME, _column("cpu_ns", pl.Int64, "CPU time that it has used so far")),
    ),
    Table(
        name="totals",
        row="One row per stretch of steps of which only the number was kept.",
        columns=(
            *SPAN,
            _column("steps", pl.Int64, "steps in it"),
            _column("samples", pl.Int64, "samples in them", nullable=True),
        ),
    ),
)

TABLE: dict[str, Table] = {table.name: table for table in TABLES}
