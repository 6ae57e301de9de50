"""The tables of a training's steps: updates, backward passes and other spans of its threads, and the graphs that were computed."""

from __future__ import annotations

import polars as pl

from slowstep.timeline.process_columns import PROCESS, SPAN, THREAD, TIME
from slowstep.timeline.table import Table, column

STEP_TABLES: tuple[Table, ...] = (
    Table(
        name="updates",
        row="One row per call that changes parameters: of an optimizer, or of what trains without one.",
        columns=(
            *SPAN,
            column("optimizer", pl.Int64, "number of the optimizer, or of what stands for one, in its process"),
            column("updates", pl.Int64, "how often it changed them"),
            column("skipped", pl.Boolean, "left out, for gradients were no numbers"),
        ),
    ),
    Table(
        name="aggregates",
        row="One row per window and kind of what a framework only counts, on its own threads.",
        columns=(
            *SPAN,
            column("kind", pl.String, "wait: for input; update: computing"),
            column("count", pl.Int64, "how often it was in the window"),
            column("total_ns", pl.Int64, "how long, in all"),
            column("samples", pl.Int64, "samples in the batches (wait); null where nobody counts them", nullable=True),
            column("iterator", pl.Int64, "number of the iterator in its process", nullable=True),
        ),
    ),
    Table(
        name="spans",
        row="One row per other named span of a thread: backward, forward, checkpoint, user's span.",
        columns=(
            *SPAN,
            column("kind", pl.String, "backward, forward, save, shutdown or span"),
            column("name", pl.String, "what it is called", nullable=True),
            column("stage", pl.String, "stage that its author gave it", nullable=True),
            column("samples", pl.Int64, "samples in it (forward: the leading dimension of input and output)", nullable=True),
            column("iterator", pl.Int64, "number of the iterator whose workers end (shutdown)", nullable=True),
            column("module", pl.Int64, "which root module it is of (forward)", nullable=True),
            column("gradients", pl.Boolean, "gradients were on (forward)", nullable=True),
            column("evaluating", pl.Boolean, "gradients were off, and the model in its evaluation mode (forward)", nullable=True),
            column("bytes", pl.Int64, "bytes written (save), or given (forward)", nullable=True),
            column(
                "file",
                pl.String,
                "file of the user's function that the span is, where a framework named it; or that asked for a save",
                nullable=True,
            ),
            column("line", pl.Int64, "first line of that function, or the line that asked", nullable=True),
        ),
    ),
    Table(
        name="totals",
        row="One row per run of steps of which only the number was kept.",
        columns=(
            *SPAN,
            column("steps", pl.Int64, "steps in it"),
            column("samples", pl.Int64, "samples in them", nullable=True),
        ),
    ),
    Table(
        name="cpu_marks",
        row="One row per reading of a thread's own clock.",
        columns=(
            PROCESS,
            THREAD,
            TIME,
            column("cpu_ns", pl.Int64, "CPU time used so far"),
            column("delay_ns", pl.Int64, "run-queue delay so far"),
        ),
    ),
    Table(
        name="backward_cpu",
        row="One row per backward pass in a job of several ranks.",
        columns=(
            *SPAN,
            column("cpu_ns", pl.Int64, "CPU time of the thread in it"),
            column("delay_ns", pl.Int64, "run-queue delay of the thread in it", nullable=True),
            column("synced", pl.Boolean, "it shares its gradients; null where unknown, as of several models", nullable=True),
            column("is_anew", pl.Boolean, "it shares them, and is known to have had none to add them to"),
        ),
    ),
    Table(
        name="graphs",
        row="One row per backward pass whose graph was looked at.",
        columns=(
            PROCESS,
            TIME,
            column("nodes", pl.Int64, "nodes below the loss; at least, where the rest is not known"),
            column("parameters", pl.Int64, "elements of the parameters that get a gradient", nullable=True),
            column("values", pl.Int64, "elements of all that the operations gave", nullable=True),
            column("kept", pl.Int64, "of them those that were made several passes earlier", nullable=True),
        ),
    ),
    Table(
        name="graph_work",
        row="One row per backward pass, of a few of those whose graph was looked at: what it computes that may grow with the samples.",
        columns=(
            PROCESS,
            TIME,
            column("elements", pl.Int64, "elements that its operations read and gave, but for those of parameters"),
            column("dear", pl.Int64, "of them those of operations that take longer for each, and of large values"),
            column("scattered", pl.Int64, "elements found by index; a row of a table is four"),
            column("products", pl.Int64, "products of two elements"),
            column("unknown", pl.List(pl.String), "operations whose work is not known, by name"),
            column("whole", pl.Int64, "operations of one kind that use the same value, at most"),
            column("parts", pl.List(pl.List(pl.Int64)), "of values that are taken apart the shapes up to that dimension; 0 is not known"),
            column(
                "weights",
                pl.List(pl.List(pl.Int64)),
                "of parameters used several times by operations of one kind how often, and the "
                "first length of what each gives; 0 is not known",
            ),
            column("multiplying", pl.Int64, "operations that multiply on the processor; null in recordings of before", nullable=True),
            column("float16", pl.Int64, "of them those that give float16", nullable=True),
            column("bfloat16", pl.Int64, "of them those that give bfloat16", nullable=True),
        ),
    ),
    Table(
        name="graph_products",
        row="One row per kind, shape and work of operations that multiply, in each pass of `graph_work` whose operations were timed.",
        columns=(
            PROCESS,
            TIME,
            column("kind", pl.String, "convolution, matrices or attention"),
            column("shape", pl.List(pl.Int64), "the shape of what such an operation gave; empty is not known"),
            column("count", pl.Int64, "how many of them there are"),
            column("products", pl.Int64, "products of two elements in one's forward", nullable=True),
            column("backward", pl.Int64, "and in its backward", nullable=True),
            column("moved", pl.Int64, "elements that one's forward reads and writes at least, parameters included", nullable=True),
            column("moved_back", pl.Int64, "and its backward", nullable=True),
            column("longest_ns", pl.Int64, "the longest backward of one", nullable=True),
            column("total_ns", pl.Int64, "the backward of all of them", nullable=True),
            column("kernel", pl.List(pl.Int64), "lengths of a convolution's kernel; empty of others and where not known", nullable=True),
        ),
    ),
    Table(
        name="graph_unused",
        row="One row per backward pass, of a few, that made gradients of parameters which no optimizer holds, and where that changed.",
        columns=(
            PROCESS,
            TIME,
            column("state", pl.String, "kept: nobody writes to these gradients; touched: somebody does, or to the parameters; none by now"),
            column("looks", pl.Int64, "passes that were looked at so far"),
            column("found", pl.Int64, "of them those that made some"),
            column("parameters", pl.Int64, "how many parameters; where some are kept, these", nullable=True),
            column("elements", pl.Int64, "their elements", nullable=True),
            column("rounds", pl.Int64, "how often they were compared with what they were, and once more", nullable=True),
            column("name", pl.String, "the module that has most of them, as the script calls it", nullable=True),
            column("nodes", pl.Int64, "nodes of the pass; null where these and the following were not looked at", nullable=True),
            column("alone", pl.Int64, "of them those that lead to such parameters only", nullable=True),
            column("halves", pl.Int64, "those that multiply for one gradient that is of use and one that is not", nullable=True),
            column("passing", pl.Int64, "of these those whose gradient of no use is a parameter's: the other goes on", nullable=True),
            column("alone_ns", pl.Int64, "how long the pass was at those; null where they were not timed", nullable=True),
            column("halves_ns", pl.Int64, "and at the halves", nullable=True),
        ),
    ),
    Table(
        name="graph_shapes",
        row="One row per shape of what the operations below a loss gave, of the commonest shapes of a few passes.",
        columns=(
            PROCESS,
            TIME,
            column("nodes", pl.Int64, "nodes below that loss in all"),
            column("uses", pl.Int64, "operations that use the value used most; null in recordings of before", nullable=True),
            column("shape", pl.List(pl.Int64), "the shape"),
            column("count", pl.Int64, "values of that shape"),
            column("elements", pl.Int64, "their elements, in all"),
            column("products", pl.Int64, "products with weights in them, in all"),
        ),
    ),
    Table(
        name="modes",
        row="One row per look at what makes operations slower while it is on.",
        columns=(
            PROCESS,
            TIME,
            column("on", pl.Int64, "which were on, as bits of record/timing/modes.py"),
            column("looked_at", pl.Int64, "which were looked at"),
        ),
    ),
)
