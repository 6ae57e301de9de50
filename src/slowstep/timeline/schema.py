"""The tables of a timeline, declared once: row meaning, columns, types, units.

A source fills these tables and states by nulls what it cannot know. Analyses read nothing else.
"""

from __future__ import annotations

import polars as pl

from slowstep.timeline.table import Table
from slowstep.timeline.table import column as _column
from slowstep.timeline.trace_tables import TRACE_TABLES

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
            _column("workers", pl.List(pl.Int64), "process ids of its workers"),
            _column("dataset", pl.String, "type name of the dataset", nullable=True),
            _column("collate", pl.String, "qualified name of the collate function", nullable=True),
            _column("collate_file", pl.String, "file of the collate function", nullable=True),
            _column("collate_line", pl.Int64, "first line of the collate function", nullable=True),
            _column("collate_is_default", pl.Boolean, "the framework's own collate function", nullable=True),
            _column("persistent", pl.Boolean, "its workers outlive it", nullable=True),
            _column("dataset_length", pl.Int64, "samples in the dataset, where it knows", nullable=True),
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
            _column("read_calls", pl.Int64, "read calls of the process meanwhile", nullable=True),
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
            _column("kind", pl.String, "what was timed: fetch, gap or body"),
            _column("number", pl.Int64, "number of the function among its process's of this kind"),
            _column("file", pl.String, "source file"),
            _column("function", pl.String, "function name"),
            _column("first_line", pl.Int64, "line where the function begins"),
            _column("total_ns", pl.Int64, "time in it and in what it called"),
            _column("own_ns", pl.Int64, "time in it and in built-in functions"),
            _column("stretches", pl.Int64, "stretches that were timed"),
            _column("calls", pl.Int64, "how often it was called", nullable=True),
            _column("wall_ns", pl.Int64, "length of all timed stretches", nullable=True),
            _column("slowdown", pl.Float64, "how many times as long Python code takes while it is timed", nullable=True),
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
    Table(
        name="run_delays",
        row="One row per reading of how long the threads of the training's process tree stood in a queue for a core.",
        columns=(
            TIME,
            _column("delay_ns", pl.Int64, "run-queue delay of the threads watched so far"),
            _column("watched", pl.Int64, "threads watched"),
            _column("threads", pl.Int64, "threads of the tree"),
        ),
    ),
    Table(
        name="tree_io",
        row="One row per reading of what the training's process tree reads and writes.",
        columns=(
            TIME,
            _column("called_bytes", pl.Int64, "bytes that read calls returned so far"),
            _column("read_bytes", pl.Int64, "bytes that came from storage so far"),
            _column("written_bytes", pl.Int64, "bytes that went to storage so far"),
        ),
    ),
    Table(
        name="tree_memory",
        row="One row per reading of the memory that the training's process tree holds.",
        columns=(
            TIME,
            _column("resident_bytes", pl.Int64, "resident memory of all processes; shared pages count in each"),
            _column("own_bytes", pl.Int64, "of them pages of no file and shared with nobody"),
            _column("largest_bytes", pl.Int64, "such pages of the process that has most"),
            _column("largest_pid", pl.Int64, "process id of that process"),
        ),
    ),
    Table(
        name="tree_faults",
        row="One row per reading of the page faults of the training's process tree.",
        columns=(
            TIME,
            _column("minor", pl.Int64, "faults served from memory so far"),
            _column("major", pl.Int64, "faults served from storage so far"),
        ),
    ),
    Table(
        name="machine_times",
        row="One row per reading of the time in which the machine's cores did nothing.",
        columns=(
            TIME,
            _column("idle_ns", pl.Int64, "idle time of all cores so far, without waiting for storage"),
            _column("storage_ns", pl.Int64, "idle time of all cores with a task waiting for storage so far (iowait)"),
        ),
    ),
    Table(
        name="pressures",
        row="One row per reading of the time in which tasks of the machine stood still for want of a resource.",
        columns=(
            TIME,
            _column("resource", pl.String, "cpu, io or memory"),
            _column("some_ns", pl.Int64, "time in which some task stood still so far"),
            _column("full_ns", pl.Int64, "time in which all tasks stood still so far", nullable=True),
        ),
    ),
    Table(
        name="throttles",
        row="One row per reading of how often the control group's CPU quota held its processes back.",
        columns=(
            TIME,
            _column("periods", pl.Int64, "periods of the quota so far"),
            _column("throttled", pl.Int64, "periods in which it was used up so far"),
            _column("throttled_ns", pl.Int64, "time held back so far, of all cores added"),
        ),
    ),
    Table(
        name="quotas",
        row="One row per change of the control group's CPU quota, the first included.",
        columns=(TIME, _column("cores", pl.Float64, "cores' worth of CPU time allowed; null is no limit", nullable=True)),
    ),
    Table(
        name="affinities",
        row="One row per change of the cores that a process of the tree may use, the first included.",
        columns=(
            TIME,
            _column("pid", pl.Int64, "process id"),
            _column("cores", pl.Int64, "cores that its main thread and those bound as tightly may use together"),
            _column("main_cores", pl.Int64, "cores that its main thread may use"),
        ),
    ),
    Table(
        name="group_memory",
        row="One row per reading of the memory that the control group uses.",
        columns=(
            TIME,
            _column("used_bytes", pl.Int64, "memory charged to the group"),
            _column("droppable_bytes", pl.Int64, "file pages in it that can be dropped", nullable=True),
            _column("limit_bytes", pl.Int64, "what it may use; null is no limit", nullable=True),
        ),
    ),
    Table(
        name="machine_memory",
        row="One row per reading of the machine's memory.",
        columns=(
            TIME,
            _column("total_bytes", pl.Int64, "memory of the machine"),
            _column("available_bytes", pl.Int64, "memory that can be had without swapping"),
        ),
    ),
    Table(
        name="swap",
        row="One row per reading of the machine's swap space, where it has any.",
        columns=(
            TIME,
            _column("free_bytes", pl.Int64, "swap space that is free"),
            _column("in_bytes", pl.Int64, "bytes swapped in so far"),
            _column("out_bytes", pl.Int64, "bytes swapped out so far"),
        ),
    ),
    Table(
        name="disks",
        row="One row per reading of a disk of the machine.",
        columns=(
            TIME,
            _column("disk", pl.String, "the kernel's name of it", nullable=True),
            _column("read_bytes", pl.Int64, "bytes read so far"),
            _column("written_bytes", pl.Int64, "bytes written so far"),
            _column("busy_ns", pl.Int64, "time in which it had something to do so far"),
        ),
    ),
    Table(
        name="network",
        row="One row per reading of the machine's network interfaces.",
        columns=(
            TIME,
            _column("loopback", pl.Boolean, "what the machine sends to itself; else all other interfaces together"),
            _column("received_bytes", pl.Int64, "bytes received so far"),
            _column("sent_bytes", pl.Int64, "bytes sent so far"),
        ),
    ),
    Table(
        name="devices",
        row="One row per accelerator of the machine.",
        columns=(
            _column("device", pl.Int64, "its number, in the order of the PCI bus"),
            _column("name", pl.String, "what its maker calls it", nullable=True),
            _column("uuid", pl.String, "its identity", nullable=True),
            _column("memory_bytes", pl.Int64, "its memory", nullable=True),
            _column("most_sm_mhz", pl.Int64, "highest clock of its multiprocessors", nullable=True),
            _column("most_memory_mhz", pl.Int64, "highest clock of its memory", nullable=True),
            _column("power_limit_mw", pl.Int64, "power allowed", nullable=True),
            _column("default_power_limit_mw", pl.Int64, "power that it is made for", nullable=True),
            _column("link_generation", pl.Int64, "highest PCIe generation of its link", nullable=True),
            _column("link_lanes", pl.Int64, "most PCIe lanes of its link", nullable=True),
        ),
    ),
    Table(
        name="device_readings",
        row="One row per reading of an accelerator.",
        columns=(
            TIME,
            _column("device", pl.Int64, "its number in `devices`"),
            _column("busy_percent", pl.Int64, "time in which a kernel ran, percent of the last period", nullable=True),
            _column("memory_busy_percent", pl.Int64, "time in which its memory was accessed, percent", nullable=True),
            _column("used_bytes", pl.Int64, "memory used, everybody's", nullable=True),
            _column("sm_mhz", pl.Int64, "clock of its multiprocessors", nullable=True),
            _column("memory_mhz", pl.Int64, "clock of its memory", nullable=True),
            _column("state", pl.Int64, "performance state: 0 the fastest, 15 the slowest", nullable=True),
            _column("lowered_by", pl.Int64, "why clocks are lowered, bits of nvmlClocksEventReasons", nullable=True),
            _column("power_mw", pl.Int64, "power drawn", nullable=True),
            _column("temperature_c", pl.Int64, "temperature", nullable=True),
            _column("link_generation", pl.Int64, "PCIe generation of its link now", nullable=True),
            _column("link_lanes", pl.Int64, "PCIe lanes of its link now", nullable=True),
            _column("received_per_s", pl.Int64, "bytes/s received over PCIe (read now and then)", nullable=True),
            _column("sent_per_s", pl.Int64, "bytes/s sent over PCIe (read now and then)", nullable=True),
            _column("own_processes", pl.Int64, "processes of the training on it", nullable=True),
            _column("other_processes", pl.Int64, "other processes on it", nullable=True),
            _column("others_bytes", pl.Int64, "memory that those hold", nullable=True),
        ),
    ),
    Table(
        name="builtins",
        row="One row per function in the making of batches whose calls were timed together with built-in functions.",
        columns=(
            PROCESS,
            _column("number", pl.Int64, "number of the row in its process"),
            _column("function", pl.String, "function name; of a built-in one as Python shows it"),
            _column("file", pl.String, "source file; null for a built-in function", nullable=True),
            _column("first_line", pl.Int64, "line where it begins; null for a built-in function", nullable=True),
            _column("calls", pl.Int64, "how often it was called"),
            _column("total_ns", pl.Int64, "time in it and in what it called"),
            _column("caller", pl.String, "the function that spent most time in a built-in one", nullable=True),
            _column("caller_file", pl.String, "source file of that function", nullable=True),
            _column("caller_line", pl.Int64, "first line of that function", nullable=True),
            _column("samples", pl.Int64, "samples made in all timed stretches"),
            _column("wall_ns", pl.Int64, "length of all timed stretches"),
        ),
    ),
    Table(
        name="batch_forms",
        row="One row per batch that was looked at.",
        columns=(
            PROCESS,
            _column("tensors", pl.Int64, "tensors in it"),
            _column("bytes", pl.Int64, "bytes of all of them"),
            _column("spare_bytes", pl.Int64, "of these, what 8 bits per value would save where the values fit into them"),
            _column("types", pl.String, "types of values, most bytes first"),
        ),
    ),
    Table(
        name="lines",
        row="One row per line of a function whose lines were counted in a step.",
        columns=(
            PROCESS,
            _column("file", pl.String, "source file"),
            _column("function", pl.String, "function name"),
            _column("first_line", pl.Int64, "line where the function begins"),
            _column("line", pl.Int64, "the line"),
            _column("count", pl.Int64, "how often it ran before counting ended"),
            _column("line_ns", pl.Int64, "time in it and in what it called"),
        ),
    ),
    Table(
        name="modes",
        row="One row per look at what makes operations slower while it is on.",
        columns=(
            PROCESS,
            TIME,
            _column("on", pl.Int64, "which were on, as bits of record/modes.py"),
            _column("looked_at", pl.Int64, "which were looked at"),
        ),
    ),
    Table(
        name="slow_samples",
        row="One row per sample that took at least eight times as long to make as a sample usually does.",
        columns=(
            *SPAN,
            _column("index", pl.Int64, "what the data set was asked for", nullable=True),
            _column("usual_ns", pl.Int64, "what a sample took in that process then"),
            BATCH,
        ),
    ),
    Table(
        name="backward_cpu",
        row="One row per backward pass in a job of several ranks.",
        columns=(
            *SPAN,
            _column("cpu_ns", pl.Int64, "CPU time of the thread in it"),
            _column("delay_ns", pl.Int64, "run-queue delay of the thread in it", nullable=True),
        ),
    ),
)

TABLE: dict[str, Table] = {table.name: table for table in (*TABLES, *TRACE_TABLES)}
