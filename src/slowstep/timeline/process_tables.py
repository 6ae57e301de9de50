"""The tables of the recorded processes: what their threads did, made and called, as the recorder in each of them wrote it."""

from __future__ import annotations

import polars as pl

from slowstep.timeline.table import Table, column

PROCESS = column("process", pl.Int32, "index of the process in `processes`")
THREAD = column("thread", pl.UInt32, "native thread id")
START = column("start_ns", pl.Int64, "when it began, CLOCK_MONOTONIC")
END = column("end_ns", pl.Int64, "when it ended, CLOCK_MONOTONIC")
TIME = column("time_ns", pl.Int64, "when it was taken, CLOCK_MONOTONIC")
FAILED = column("failed", pl.Boolean, "the call raised")
ITERATOR = column("iterator", pl.Int64, "number of the loader's iterator in its process")
BATCH = column("batch", pl.Int64, "index of the batch in its iterator's order")
SPAN = (PROCESS, THREAD, START, END)

PROCESS_TABLES: tuple[Table, ...] = (
    Table(
        name="processes",
        row="One row per recorded process.",
        columns=(
            PROCESS,
            column("pid", pl.Int64, "process id"),
            column("parent_pid", pl.Int64, "process id of its parent", nullable=True),
            column("role", pl.String, "trainer, worker or launcher"),
            column("started_ns", pl.Int64, "when recording began in it", nullable=True),
            column("ended", pl.Boolean, "it closed its recording itself (was not killed)"),
        ),
    ),
    Table(
        name="iterators",
        row="One row per iterator that a loader made.",
        columns=(
            PROCESS,
            ITERATOR,
            column("loader", pl.Int64, "number of the loader in its process"),
            column("num_workers", pl.Int64, "worker processes of the loader, where it is known who makes its batches", nullable=True),
            column("prefetch_factor", pl.Int64, "batches asked for ahead per worker", nullable=True),
            column("batch_size", pl.Int64, "batch size the loader was given", nullable=True),
            column("workers", pl.List(pl.Int64), "process ids of its workers"),
            column("dataset", pl.String, "type name of the dataset", nullable=True),
            column("collate", pl.String, "qualified name of the collate function", nullable=True),
            column("collate_file", pl.String, "file of the collate function", nullable=True),
            column("collate_line", pl.Int64, "first line of the collate function", nullable=True),
            column("collate_is_default", pl.Boolean, "the framework's own collate function", nullable=True),
            column("persistent", pl.Boolean, "its workers outlive it", nullable=True),
            column("start_method", pl.String, "how its workers were started: fork, forkserver or spawn", nullable=True),
            column("dataset_length", pl.Int64, "samples in the dataset, where it knows", nullable=True),
            column("batches", pl.Int64, "batches of one pass, where its own sampler counts them", nullable=True),
            column("framework", pl.String, "name of the framework whose loader made it, where it was said", nullable=True),
            column("divides", pl.Boolean, "each worker gives a part of a stream, not all of it; null where unknown", nullable=True),
            column("draws", pl.Boolean, "that is unknown because the stream's code draws at random; null of no stream", nullable=True),
            column("marked", pl.Boolean, "a script named it by `slowstep.steps`; null where it was not said", nullable=True),
        ),
    ),
    Table(
        name="input_code",
        row="One row per class of what an iterator reads, and per function of the user's around the making of its loader.",
        columns=(
            PROCESS,
            ITERATOR,
            column("kind", pl.String, "data_set or sampler (a class), or maker (a function)"),
            column("file", pl.String, "its source file"),
            column("name", pl.String, "its qualified name"),
            column("first_line", pl.Int64, "line where the function begins; null of a class", nullable=True),
        ),
    ),
    Table(
        name="waits",
        row="One row per request for a next batch.",
        columns=(
            *SPAN,
            ITERATOR,
            BATCH,
            column("samples", pl.Int64, "samples in the batch (leading dimension)", nullable=True),
            column("ready", pl.Int64, "batches that were ready when it was asked for", nullable=True),
            column("exhausted", pl.Boolean, "the iterator had no more batches"),
            FAILED,
            column("validation", pl.Boolean, "marked as no training input"),
        ),
    ),
    Table(
        name="starts",
        row="One row per iterator made (worker start-up included).",
        columns=(
            *SPAN,
            ITERATOR,
            column("loader", pl.Int64, "number of the loader in its process"),
            column("num_workers", pl.Int64, "worker processes of the loader"),
        ),
    ),
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
        row="One row per other named stretch of a thread: backward, forward, checkpoint, user's span.",
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
        name="fetches",
        row="One row per batch made by a producer.",
        columns=(
            *SPAN,
            column("iterator", pl.Int64, "number of the iterator where the producer knows it", nullable=True),
            BATCH,
            column("samples", pl.Int64, "samples asked for", nullable=True),
            column("cpu_ns", pl.Int64, "CPU time of the producing thread"),
            column("other_cpu_ns", pl.Int64, "CPU time of the process's other threads meanwhile", nullable=True),
            column("delay_ns", pl.Int64, "run-queue delay of the producing thread", nullable=True),
            column("read_bytes", pl.Int64, "bytes that read calls returned to the process", nullable=True),
            column("storage_bytes", pl.Int64, "bytes that came from storage", nullable=True),
            FAILED,
            column("profiled", pl.Boolean, "its calls were timed, so it took longer than it would have"),
            column("read_calls", pl.Int64, "read calls of the process meanwhile", nullable=True),
        ),
    ),
    Table(
        name="collates",
        row="One row per collate call (inside a fetch).",
        columns=(
            *SPAN,
            column("cpu_ns", pl.Int64, "CPU time of the thread"),
            column("bytes", pl.Int64, "size of the batch made", nullable=True),
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
    Table(name="idles", row="One row per stretch in which a worker had nothing to make.", columns=SPAN),
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
        name="threads",
        row="One row per Python thread beside the training's that computed.",
        columns=(
            PROCESS,
            THREAD,
            column("name", pl.String, "what the script or a library called it"),
        ),
    ),
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
            column("device_idle", pl.Boolean, "whether the framework's device had nothing to do; null where nothing told", nullable=True),
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
        ),
    ),
    Table(
        name="calls",
        row="One row per function whose calls were timed, over all timed stretches of its kind.",
        columns=(
            PROCESS,
            column("kind", pl.String, "what was timed: fetch, gap or body"),
            column("number", pl.Int64, "number of the function among its process's of this kind"),
            column("file", pl.String, "source file"),
            column("function", pl.String, "function name"),
            column("first_line", pl.Int64, "line where the function begins"),
            column("total_ns", pl.Int64, "time in it and in what it called"),
            column("own_ns", pl.Int64, "time in it and in built-in functions"),
            column("stretches", pl.Int64, "stretches that were timed"),
            column("calls", pl.Int64, "how often it was called", nullable=True),
            column("wall_ns", pl.Int64, "length of all timed stretches", nullable=True),
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
        row="One row per stretch whose calls were timed, of the first hundred.",
        columns=(
            PROCESS,
            column("kind", pl.String, "what was timed"),
            column("start_ns", pl.Int64, "when timing began"),
        ),
    ),
    Table(
        name="totals",
        row="One row per stretch of steps of which only the number was kept.",
        columns=(
            *SPAN,
            column("steps", pl.Int64, "steps in it"),
            column("samples", pl.Int64, "samples in them", nullable=True),
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
            column("samples", pl.Int64, "samples made in all timed stretches"),
            column("wall_ns", pl.Int64, "length of all timed stretches"),
        ),
    ),
    Table(
        name="batch_forms",
        row="One row per batch that was looked at.",
        columns=(
            PROCESS,
            column("tensors", pl.Int64, "tensors in it"),
            column("bytes", pl.Int64, "bytes of all of them"),
            column("spare_bytes", pl.Int64, "of these, what 8 bits per value would save where the values fit into them"),
            column("types", pl.String, "types of values, most bytes first"),
            column("array_bytes", pl.Int64, "of all bytes, those in NumPy's arrays; null in recordings of before", nullable=True),
        ),
    ),
    Table(
        name="padded_batches",
        row="One row per array of whole numbers in a batch that was looked at for padding, and one for a batch without any.",
        columns=(
            PROCESS,
            TIME,
            ITERATOR,
            BATCH,
            column(
                "array", pl.Int64, "which of the batch's arrays, in their order; null where it has none of whole numbers", nullable=True
            ),
            column("rows", pl.Int64, "sequences in it", nullable=True),
            column("length", pl.Int64, "places that each has", nullable=True),
            column(
                "lengths", pl.List(pl.Int64), "places that are filled, of up to 512 sequences; null without a common end", nullable=True
            ),
            column("value", pl.Int64, "what stands in the other places", nullable=True),
            column("at_end", pl.Boolean, "they are behind the filled ones, and not before them", nullable=True),
            column("inside", pl.Int64, "sequences that hold that value elsewhere too", nullable=True),
            column("values", pl.Int64, "different values besides it", nullable=True),
            column("mask", pl.Boolean, "another array of the batch tells which places are filled", nullable=True),
        ),
    ),
    Table(
        name="graph_shapes",
        row="One row per shape of what the operations below a loss gave, of the commonest shapes of a few passes.",
        columns=(
            PROCESS,
            TIME,
            column("nodes", pl.Int64, "nodes below that loss in all"),
            column("shape", pl.List(pl.Int64), "the shape"),
            column("count", pl.Int64, "values of that shape"),
            column("elements", pl.Int64, "their elements, in all"),
            column("products", pl.Int64, "products with weights in them, in all"),
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
            column("complete", pl.Boolean, "whether lines were counted to the end of that stretch", nullable=True),
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
        name="slow_samples",
        row="One row per sample that took at least eight times as long to make as a sample usually does.",
        columns=(
            *SPAN,
            column("index", pl.Int64, "what the data set was asked for", nullable=True),
            column("usual_ns", pl.Int64, "what a sample took in that process then"),
            BATCH,
        ),
    ),
    Table(
        name="backward_cpu",
        row="One row per backward pass in a job of several ranks.",
        columns=(
            *SPAN,
            column("cpu_ns", pl.Int64, "CPU time of the thread in it"),
            column("delay_ns", pl.Int64, "run-queue delay of the thread in it", nullable=True),
        ),
    ),
)
