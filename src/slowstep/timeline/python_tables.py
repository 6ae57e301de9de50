"""The tables of Python code at work: stacks, timed calls, counted lines, threads other than the training's, and garbage collections."""

from __future__ import annotations

import polars as pl

from slowstep.timeline.process_columns import PROCESS, SPAN, THREAD, TIME
from slowstep.timeline.table import Table, column

PYTHON_TABLES: tuple[Table, ...] = (
    Table(
        name="stacks",
        row="One row per stack taken of a thread.",
        columns=(
            PROCESS,
            THREAD,
            TIME,
            column("stack", pl.Int64, "number of the stack in its process"),
            column("weight_ns", pl.Int64, "time since the stack before"),
            column("lateness_ns", pl.Int64, "how late the sampler was"),
            column("blocked", pl.Boolean, "neither used a core nor waited for one; looked at now and then, else false"),
            column("device_idle", pl.Boolean, "whether the framework's device had nothing to do; null where unknown", nullable=True),
        ),
    ),
    Table(
        name="frames",
        row="One row per frame of each distinct stack, root first.",
        columns=(
            PROCESS,
            column("stack", pl.Int64, "number of the stack in its process"),
            column("depth", pl.Int64, "0 is the root"),
            column("file", pl.String, "source file"),
            column("function", pl.String, "function name"),
            column("first_line", pl.Int64, "line where the function begins"),
            column("line", pl.Int64, "line that was executed"),
            column("column", pl.Int64, "where in it the call begins, in the script's own code; bytes, from 0", nullable=True),
            column("end_line", pl.Int64, "the last line of the call", nullable=True),
            column("end_column", pl.Int64, "where in its last line the call ends", nullable=True),
            column("called", pl.String, "what is called there, as it is written; an operator's sign", nullable=True),
            column("in_loop", pl.Boolean, "whether a loop of the function holds it", nullable=True),
        ),
    ),
    Table(
        name="calls",
        row="One row per function whose calls were timed, over all timed spans of its kind.",
        columns=(
            PROCESS,
            column("kind", pl.String, "what was timed: fetch, gap or body"),
            column("number", pl.Int64, "number of the function among its process's of this kind"),
            column("file", pl.String, "source file"),
            column("function", pl.String, "function name"),
            column("first_line", pl.Int64, "line where the function begins"),
            column("total_ns", pl.Int64, "time in it and in what it called"),
            column("own_ns", pl.Int64, "time in it and in built-in functions"),
            column("stretches", pl.Int64, "spans that were timed"),
            column("calls", pl.Int64, "how often it was called", nullable=True),
            column("wall_ns", pl.Int64, "length of all timed spans", nullable=True),
            column("slowdown", pl.Float64, "how many times as long Python code takes while it is timed", nullable=True),
        ),
    ),
    Table(
        name="call_edges",
        row="One row per pair of functions of which one called the other.",
        columns=(
            PROCESS,
            column("kind", pl.String, "what was timed"),
            column("caller", pl.Int64, "number of the calling function"),
            column("callee", pl.Int64, "number of the called function"),
            column("total_ns", pl.Int64, "time of those calls"),
        ),
    ),
    Table(
        name="timed_stretches",
        row="One row per span whose calls were timed, of the first hundred.",
        columns=(
            PROCESS,
            column("kind", pl.String, "what was timed"),
            column("start_ns", pl.Int64, "when timing began"),
        ),
    ),
    Table(
        name="builtins",
        row="One row per function in the making of batches whose calls were timed together with built-in functions.",
        columns=(
            PROCESS,
            column("number", pl.Int64, "number of the row in its process"),
            column("function", pl.String, "function name; of a built-in one as Python shows it"),
            column("file", pl.String, "source file; null for a built-in function", nullable=True),
            column("first_line", pl.Int64, "line where it begins; null for a built-in function", nullable=True),
            column("calls", pl.Int64, "how often it was called"),
            column("total_ns", pl.Int64, "time in it and in what it called"),
            column("caller", pl.String, "the function that spent most time in a built-in one", nullable=True),
            column("caller_file", pl.String, "source file of that function", nullable=True),
            column("caller_line", pl.Int64, "first line of that function", nullable=True),
            column("samples", pl.Int64, "samples made in all timed spans"),
            column("wall_ns", pl.Int64, "length of all timed spans"),
        ),
    ),
    Table(
        name="lines",
        row="One row per line of a function whose lines were counted in a step or in the making of a batch.",
        columns=(
            PROCESS,
            column(
                "kind",
                pl.String,
                "where: body, from the receipt of input to the update, gap, from there on, or fetch, the making of a batch",
            ),
            column("file", pl.String, "source file"),
            column("function", pl.String, "function name"),
            column("first_line", pl.Int64, "line where the function begins"),
            column("line", pl.Int64, "the line"),
            column("count", pl.Int64, "how often it ran before counting ended"),
            column("line_ns", pl.Int64, "time in it and in what it called"),
            column("counting_ns", pl.Int64, "what of line_ns, each time, counting itself has added", nullable=True),
            column("complete", pl.Boolean, "whether lines were counted to the end of that span", nullable=True),
            column("operations", pl.Int64, "calls, arithmetic, comparisons and indices on it: no fewer than of tensors", nullable=True),
        ),
    ),
    Table(
        name="called",
        row="One row per function whose calls were looked at in a step or in the making of a batch.",
        columns=(
            PROCESS,
            column(
                "kind",
                pl.String,
                "where: body, from the receipt of input to the update, gap, from there on, or fetch, the making of a batch",
            ),
            column("file", pl.String, "source file"),
            column("function", pl.String, "function name"),
            column("first_line", pl.Int64, "line where the function begins"),
            column("calls", pl.Int64, "its calls outside of backward and update"),
            column("hooks", pl.Int64, "of them those that a module's call made, and not of its forward"),
            column("inside", pl.Int64, "of them those inside the call of a module"),
            column("gradient", pl.Int64, "of them those with gradients on"),
            column("nothing", pl.Int64, "of them those that returned nothing"),
            column("nodes", pl.Int64, "nodes that they added to autograd's graph"),
            column("of_nodes", pl.Int64, "nodes that were added to it meanwhile in all"),
            column("early", pl.Int64, "calls that began before any was added, and before any module was called", nullable=True),
            column("late", pl.Int64, "calls that began behind a backward pass of the step", nullable=True),
        ),
    ),
    Table(
        name="retraces",
        row="One row per change for which a function was traced again: of each function the first eight traces, then fewer and fewer.",
        columns=(
            PROCESS,
            TIME,
            column("function", pl.String, "function name"),
            column("number", pl.Int64, "of this trace among those of the function that were unlike those before it"),
            column("argument", pl.String, "the argument that changed, or the part of one; empty where the function was made again"),
            column("change", pl.String, "what of it changed: shape, dtype, value, object, structure, or function"),
            column("before", pl.String, "how it is written of the trace before that is most alike"),
            column("after", pl.String, "how it is written of this one"),
        ),
    ),
    Table(
        name="threads",
        row="One row per Python thread other than the training's that computed.",
        columns=(
            PROCESS,
            THREAD,
            column("name", pl.String, "what the script or a library called it"),
        ),
    ),
    Table(
        name="collections",
        row="One row per collection of Python's garbage collector that took a tenth of a millisecond or more.",
        columns=(
            *SPAN,
            column("generation", pl.Int64, "of the objects that were walked, the oldest: 0, 1 or 2"),
            column("let_go", pl.Int64, "objects that nothing could reach any more"),
            column("asked", pl.Boolean, "a call asked for it; else Python began it by itself"),
            column("asked_at", pl.String, "file and line of that call", nullable=True),
        ),
    ),
)
