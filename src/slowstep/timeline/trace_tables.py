"""The tables that sources of profiler traces fill: what ran on host threads, what on devices, and what the trace says of both.

Times are nanoseconds since the first event of the trace, so that they fit into any clock; names are categories, as a trace repeats few of
them millions of times. A device event and the host call that launched it have the same `correlation`.
"""

from __future__ import annotations

import polars as pl

from slowstep.timeline.table import Table, column

# What a host event is: an operator of a framework, a call of the device's runtime or driver, a range that somebody named (a framework,
# NVTX, record_function), a Python function, or the profiler's own work.
HOST_KINDS = ("operator", "runtime", "driver", "annotation", "python", "overhead")
NOT_PYTHON = tuple(kind for kind in HOST_KINDS if kind != "python")
# What a device event is: a kernel (collectives are kernels too; their names tell), a copy by its direction, or the filling of memory.
DEVICE_KINDS = ("kernel", "h2d", "d2h", "d2d", "p2p", "memset")

HOST_KIND = pl.Enum(HOST_KINDS)
DEVICE_KIND = pl.Enum(DEVICE_KINDS)

START = column("start_ns", pl.Int64, "when it began")
END = column("end_ns", pl.Int64, "when it ended")

TRACE_TABLES: tuple[Table, ...] = (
    Table(
        name="trace_threads",
        row="One row per host thread.",
        columns=(
            column("thread", pl.Int32, "index of the thread, used by `host_events`"),
            column("pid", pl.Int64, "process id", nullable=True),
            column("tid", pl.Int64, "thread id", nullable=True),
            column("name", pl.String, "what the trace calls the thread", nullable=True),
        ),
    ),
    Table(
        name="trace_devices",
        row="One row per device.",
        columns=(
            column("device", pl.Int32, "index of the device, used by `device_events`"),
            column("name", pl.String, "product name", nullable=True),
            column("memory_bytes", pl.Int64, "memory", nullable=True),
            column("multiprocessors", pl.Int32, "streaming multiprocessors or compute units", nullable=True),
            column("compute_capability", pl.Float32, "CUDA compute capability, as 8.0", nullable=True),
        ),
    ),
    Table(
        name="host_events",
        row="One row per span of a host thread that the trace names; spans of one thread nest.",
        columns=(
            column("thread", pl.Int32, "index of the thread"),
            START,
            END,
            column("kind", HOST_KIND, "what it is"),
            column("name", pl.Categorical, "its name, as in the trace"),
            column("correlation", pl.Int64, "number shared with the device events that it launched (runtime, driver)", nullable=True),
            column("external", pl.Int64, "number of the operator that it belongs to, or is", nullable=True),
            column("sequence", pl.Int64, "autograd's sequence number: an operator and its backward have the same", nullable=True),
            column("shapes", pl.Categorical, "shapes of its inputs, as JSON", nullable=True),
            column("types", pl.Categorical, "element types of its inputs, as JSON", nullable=True),
            column("stack", pl.Categorical, "the Python frames above it, innermost first, separated by ';'", nullable=True),
        ),
    ),
    Table(
        name="device_events",
        row="One row per span of a stream of a device.",
        columns=(
            column("device", pl.Int32, "index of the device"),
            column("stream", pl.Int64, "number of the stream on its device"),
            START,
            END,
            column("kind", DEVICE_KIND, "what it is"),
            column("name", pl.Categorical, "its name, as in the trace (kernels demangled where the trace does)"),
            column("correlation", pl.Int64, "number shared with the host call that launched it", nullable=True),
            column("external", pl.Int64, "number of the operator that it belongs to", nullable=True),
            column("bytes", pl.Int64, "bytes copied or filled; of a collective, bytes of its input", nullable=True),
            column("pageable", pl.Boolean, "the copy's host side is pageable memory (False: pinned)", nullable=True),
            column("blocks", pl.Int64, "thread blocks in the kernel's grid", nullable=True),
            column("block_threads", pl.Int32, "threads in a block", nullable=True),
            column("registers", pl.Int32, "registers per thread", nullable=True),
            column("occupancy", pl.Float32, "estimated achieved occupancy, 0 to 1", nullable=True),
            column("collective", pl.Categorical, "operation of the collective, as the trace says it", nullable=True),
            column("group_size", pl.Int32, "ranks that take part in the collective", nullable=True),
            column("from_graph", pl.Boolean, "launched as a part of a graph: many kernels have one launch"),
        ),
    ),
    Table(
        name="marked_steps",
        row="One row per step that the trace marks.",
        columns=(
            column("number", pl.Int64, "its number in the trace"),
            START,
            END,
            column("thread", pl.Int32, "index of the thread that marked it", nullable=True),
            column("mark", pl.String, "by what: ProfilerStep, NVTX, step_num, Profiled batch"),
        ),
    ),
    Table(
        name="handed_work",
        row="One row per span of a host thread in which it does what a thread has handed to its framework's runtime, or hands it over.",
        columns=(
            column("thread", pl.Int32, "index of the thread that does it"),
            START,
            END,
            column("for_thread", pl.Int32, "index of the thread that has handed it over, which may be the same one"),
            column("handed_ns", pl.Int64, "when it was handed over", nullable=True),
            column("works", pl.Boolean, "it is done; else it is the call that hands it over, and may wait for it"),
        ),
    ),
    Table(
        name="allocations",
        row="One row per allocation or release of memory that the framework's allocator reported.",
        columns=(
            column("time_ns", pl.Int64, "when"),
            column("device", pl.Int32, "index of the device; -1 is the host"),
            column("bytes", pl.Int64, "bytes allocated; below 0 released"),
            column("allocated_bytes", pl.Int64, "bytes in use after it", nullable=True),
            column("reserved_bytes", pl.Int64, "bytes that the allocator holds after it", nullable=True),
        ),
    ),
)
