"""The tables that the analyses of a trace make, declared once: row meaning, columns, units. docs/tables.md is generated from here.

`step` is the position of a step in the window (0 is the first), the row number in `steps`. Times are nanoseconds on the trace's clock;
device time is that of the whole device: an instant in which two streams work counts once, where a column does not say otherwise.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from slowstep.timeline.table import Table, column

# The mark of a trace that shows no steps, and is taken as one.
WINDOW: Final = "window"
# That of steps which were made out by what repeats: they have no numbers of their own.
INFERRED: Final = "inferred"

STEP = column("step", pl.Int32, "position of the step in the window")
START = column("start_ns", pl.Int64, "when it began")
END = column("end_ns", pl.Int64, "when it ended")
OPERATOR = column("operator", pl.String, "innermost framework operator around it, the outermost one for what it launched", nullable=True)
WHERE = column(
    "where",
    pl.String,
    "function of the user's code, as `step (train.py:82)`: the line at which it begins, for which line of it ran is not recorded; "
    "outside of functions the file",
    nullable=True,
)
MODULE = column(
    "module", pl.String, "innermost nn.Module around that of them which took longest, as `Linear_3`, or around its forward", nullable=True
)
KIND = column("kind", pl.String, "what the part of the stage is")
NAME = column(
    "name", pl.String, "the user's or a framework's own name of the part: of a function, a range, the call that waited", nullable=True
)
PLACE = column("place", pl.String, "where that begins, as `train.py:30`; of a call the function that it is in, as `where`", nullable=True)
CHARGED = tuple(
    column(f"charged_{piece}", pl.String, f"{piece} of the part of the ledger to which most of that was charged", nullable=True)
    for piece in ("stage", "kind", "name", "place")
)
THREAD = column("thread", pl.Int32, "index of the host thread", nullable=True)

STEPS = Table(
    name="steps",
    row="One row per step of the window.",
    columns=(
        STEP,
        column("number", pl.Int64, "its number in the trace; counted from 0 where it has none"),
        START,
        END,
        column("mark", pl.String, "by what it is known: ProfilerStep, NVTX, step_num, Profiled batch, inferred, window"),
        THREAD,
        column("host_start_ns", pl.Int64, "when the host began it: device work trails the host, so that a step may begin later"),
        column("host_end_ns", pl.Int64, "when the host was done with it"),
    ),
)
LEDGER = Table(
    name="ledger",
    row="One row per step and part of a stage that has time; a step's rows sum to its length exactly.",
    columns=(
        STEP,
        column("stage", pl.String, "one of the eight stages, or unattributed"),
        KIND,
        NAME,
        PLACE,
        column("ns", pl.Int64, "time"),
    ),
)
GAPS = Table(
    name="gaps",
    row="One row per interval in which the device had nothing to do and one cause held.",
    columns=(
        STEP,
        column("gap", pl.Int32, "number of the gap that it is a piece of"),
        START,
        END,
        column("stage", pl.String, "the stage that is charged"),
        KIND,
        NAME,
        PLACE,
        column("call", pl.String, "the host call or range that held meanwhile", nullable=True),
        OPERATOR,
        WHERE,
        column("between_steps", pl.Boolean, "the gap spans the boundary of two steps"),
        THREAD,
    ),
)
KERNELS = Table(
    name="kernels",
    row="One row per kernel name in the window.",
    columns=(
        column("name", pl.String, "name as in the trace"),
        column(
            "class",
            pl.String,
            "matmul, convolution, attention, elementwise, reduction, normalization, embedding, optimizer, collective, other",
        ),
        column("count", pl.Int64, "how often it ran"),
        column("total_ns", pl.Int64, "time of its runs, added up"),
        column("median_ns", pl.Float64, "median run"),
        column("p05_ns", pl.Float64, "5th percentile of its runs"),
        column("p95_ns", pl.Float64, "95th percentile of its runs"),
        column("share", pl.Float64, "of all kernels' time"),
        column("precision", pl.String, "float64, float32, tf32, float16, bfloat16, float8, int8", nullable=True),
        column("tensor_core", pl.Boolean, "it uses Tensor Cores (or matrix cores)", nullable=True),
        column("eligible", pl.Boolean, "its operator could use Tensor Cores", nullable=True),
        column(
            "why_not",
            pl.String,
            "why an eligible kernel does not use them: full-precision, no-tf32, double, one-row, misaligned, unknown",
            nullable=True,
        ),
        column("multiple", pl.Int64, "of how many elements the sizes of a misaligned one should be multiples", nullable=True),
        column("sizes", pl.String, 'those sizes, as `{"M": 64, "K": 100, "N": 512}`', nullable=True),
        OPERATOR,
        column("shapes", pl.String, "shapes of that operator's inputs, of several those with most time", nullable=True),
        WHERE,
        MODULE,
        column("launch_delay_ns", pl.Float64, "median time from the end of its launch call to its start", nullable=True),
        column("occupancy", pl.Float64, "median estimated achieved occupancy", nullable=True),
    ),
)
OPERATORS = Table(
    name="operators",
    row="One row per operator name, shapes and function of the user's.",
    columns=(
        column("name", pl.String, "name as in the trace"),
        column("shapes", pl.String, "shapes of its inputs", nullable=True),
        column("types", pl.String, "element types of its inputs", nullable=True),
        WHERE,
        MODULE,
        column("count", pl.Int64, "how often it was called"),
        column("host_total_ns", pl.Int64, "host time from call to return"),
        column("host_self_ns", pl.Int64, "of it, outside operators that it called"),
        column("device_total_ns", pl.Int64, "time of the kernels and copies that it launched, those of operators inside it included"),
        column("device_self_ns", pl.Int64, "of it, outside operators that it called"),
        column("launches", pl.Int64, "device events that it launched itself"),
        column("on_host", pl.Boolean, "it computed on the host though the training has a device (most of `host_self_ns`)", nullable=True),
        column("backward", pl.Boolean, "called by autograd's backward"),
    ),
)
LAUNCHES = Table(
    name="launches",
    row="One row per step.",
    columns=(
        STEP,
        column("kernels", pl.Int64, "kernels that ran"),
        column("launches", pl.Int64, "host calls that launched kernels"),
        column("graph_launches", pl.Int64, "of them, of whole graphs"),
        column("launch_ns", pl.Int64, "host time inside those calls"),
        column("median_kernel_ns", pl.Float64, "median kernel", nullable=True),
        column("median_delay_ns", pl.Float64, "median time from the end of a launch call to its kernel's start", nullable=True),
        column("short_kernels", pl.Int64, "kernels that took less time than the trace's median launch call", nullable=True),
        column("queue_depth", pl.Float64, "mean number of kernels launched and not yet begun", nullable=True),
        column("queue_empty_share", pl.Float64, "share of the step in which nothing was launched and unfinished", nullable=True),
        column("gaps", pl.Int64, "gaps of the device, each of which is in the table of that name"),
        column("gap_ns", pl.Int64, "how long they were together"),
    ),
)
COPIES = Table(
    name="copies",
    row="One row per kind of copy, operator and function of the user's.",
    columns=(
        column("kind", pl.String, "h2d, d2h, d2d, p2p, memset"),
        OPERATOR,
        WHERE,
        column("count", pl.Int64, "how often"),
        column("steps", pl.Int64, "steps of the window in which it occurs"),
        column("bytes", pl.Int64, "bytes in all", nullable=True),
        column("total_ns", pl.Int64, "time of the copies, added up"),
        column("exposed_ns", pl.Int64, "of it, while the device did nothing of higher rank"),
        column("overlapped_ns", pl.Int64, "of it, while the device did"),
        column("gb_per_s", pl.Float64, "bytes by time, 1e9 bytes", nullable=True),
        column("pageable", pl.Boolean, "from or to pageable memory", nullable=True),
        column("blocking", pl.Boolean, "the host waited for it"),
        column("repeated", pl.Boolean, "the same copy (place, bytes) in every step of the window, the input's own excepted"),
    ),
)
SYNCHRONIZATIONS = Table(
    name="synchronizations",
    row="One row per synchronizing host call, operator and function of the user's.",
    columns=(
        column("call", pl.String, "runtime call, as cudaStreamSynchronize"),
        OPERATOR,
        WHERE,
        column("count", pl.Int64, "how often"),
        column("steps", pl.Int64, "steps of the window in which it occurs"),
        column("host_wait_ns", pl.Int64, "host time inside the calls"),
        column("run_dry_ns", pl.Int64, "time for which the device then had nothing to do because of it"),
        column("reads_back", pl.Boolean, "it waits for a copy to the host"),
        column("bytes", pl.Int64, "bytes that were read back", nullable=True),
    ),
)
COLLECTIVES = Table(
    name="collectives",
    row="One row per operation, kernel name and size.",
    columns=(
        column("operation", pl.String, "all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, send_recv, barrier, other"),
        column("library", pl.String, "nccl, rccl, gloo, xla, deepep, other"),
        column("name", pl.String, "kernel or range name"),
        column("bytes", pl.Int64, "bytes of its input", nullable=True),
        column("group_size", pl.Int32, "ranks that take part", nullable=True),
        column("count", pl.Int64, "how often"),
        column("total_ns", pl.Int64, "time, added up"),
        column("exposed_ns", pl.Int64, "of it, while no compute kernel ran"),
        column("overlapped_ns", pl.Int64, "of it, while a compute kernel ran"),
        column("bus_gb_per_s", pl.Float64, "bus bandwidth by NCCL's definition, 1e9 bytes", nullable=True),
    ),
)
MEMORY = Table(
    name="memory",
    row="One row per step and device of which allocations, or calls that allocate device memory, were recorded.",
    columns=(
        STEP,
        column("device", pl.Int32, "index of the device; -1 is the host"),
        column("peak_allocated_bytes", pl.Int64, "most bytes in use", nullable=True),
        column("peak_reserved_bytes", pl.Int64, "most bytes held by the allocator", nullable=True),
        column("allocator_calls", pl.Int64, "cudaMalloc, cudaFree and their like: calls that the allocator's cache should spare"),
        column("allocator_ns", pl.Int64, "host time in them"),
    ),
)
LOADER = Table(
    name="loader",
    row="One row per request for the next batch that the trace shows.",
    columns=(
        STEP,
        START,
        END,
        column("name", pl.String, "name as in the trace"),
        column("exposed_ns", pl.Int64, "of it, while the device had nothing to do"),
    ),
)
PLACEMENT = Table(
    name="placement",
    row="One row per kind of place and precision of operators.",
    columns=(
        column("place", pl.String, "device or host"),
        column("precision", pl.String, "element type of the inputs; unknown without shapes"),
        column("operators", pl.Int64, "operators called"),
        column("ns", pl.Int64, "device time on the device, host self time on the host"),
        column("share", pl.Float64, "of the place's time"),
    ),
)
COMPILATIONS = Table(
    name="compilations",
    row="One row per span of a step in which a host thread compiled a function or loaded code that was compiled for the first time.",
    columns=(
        STEP,
        START,
        END,
        column("name", pl.String, "name of the outermost range as in the trace"),
        THREAD,
        WHERE,
        column("exposed_ns", pl.Int64, "of it, while the device had nothing to do; without a device all of it"),
        *CHARGED,
    ),
)
NAMED_WORK = Table(
    name="named_work",
    row="One row per step and name of what somebody has named outside the model (a validation, a callback) and the device computed for.",
    columns=(
        STEP,
        column("stage", pl.String, "stage that the name implies: output or store"),
        KIND,
        NAME,
        PLACE,
        column("kernels", pl.Int64, "kernels that were launched inside the ranges of that name"),
        column("ns", pl.Int64, "time in which any of them ran"),
    ),
)
LOSS_SCALING = Table(
    name="loss_scaling",
    row="One row per read-back by which a gradient scaler learns whether gradients overflowed.",
    columns=(
        STEP,
        START,
        END,
        THREAD,
        WHERE,
        column("run_dry_ns", pl.Int64, "time for which the device then had nothing to do because of it"),
        *CHARGED,
    ),
)
REPLAY = Table(
    name="replay",
    row="One row per scenario and replayed step, and of each further ones without what the profiler took, where that matters.",
    columns=(
        column("scenario", pl.String, "what is changed; `unchanged` is the check"),
        column(
            "recording",
            pl.String,
            "as-recorded; without the profiler's usual cost: less-usual-cost, without its highest: less-most-cost",
        ),
        column("taken_ns", pl.Int64, "what of the host's time in the step is taken for the profiler's; 0 as recorded", nullable=True),
        STEP,
        column("observed_ns", pl.Int64, "length of the step in the trace"),
        column("unchanged_ns", pl.Int64, "length of the step replayed with nothing changed; the observed one where that was not done"),
        column("expected_ns", pl.Int64, "length of the step replayed with the change", nullable=True),
        column("best_ns", pl.Int64, "the same in the optimistic case of what is assumed", nullable=True),
        column("worst_ns", pl.Int64, "the same in the pessimistic case", nullable=True),
        column("residual_ns", pl.Int64, "delays that no dependency explains"),
        column("not_judged", pl.String, "why the scenario's gain is not known, as a code; null where it is", nullable=True),
        column("not_judged_values", pl.String, 'the numbers of that, as `{"share": 0.2}`', nullable=True),
    ),
)

# `ledger` is made of the `Ledger` where tables are written for others; rules and reports ask that.
TRACE_MEASUREMENT_TABLES: tuple[Table, ...] = (
    STEPS,
    LEDGER,
    GAPS,
    KERNELS,
    OPERATORS,
    LAUNCHES,
    COPIES,
    SYNCHRONIZATIONS,
    COLLECTIVES,
    MEMORY,
    LOADER,
    PLACEMENT,
    COMPILATIONS,
    NAMED_WORK,
    LOSS_SCALING,
    REPLAY,
)
