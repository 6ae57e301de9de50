"""Whether a trace is of a training, of which framework's loop, and how many samples a step of it has."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import Final

import polars as pl

from slowstep.analyses.events.training_thread import OPTIMIZER_RANGE, training_thread
from slowstep.frameworks._events import BatchInputs, Event
from slowstep.frameworks._known import batch_inputs, events, words_of_marks, words_of_profiler
from slowstep.frameworks._words import Words
from slowstep.timeline.shapes import read_shapes
from slowstep.timeline.timeline import Timeline
from slowstep.timeline.trace_tables import NOT_PYTHON

# Kernels of backward passes by their libraries' names: cuDNN (wgrad, bn_bw), CUTLASS and MIOpen (wgrad, wrw, bwd), FlashAttention, PyTorch,
# XLA.
DEVICE_EVIDENCE: Final = (
    r"(?i)wgrad|(^|_)wrw_|(^|:|_)bn_bw_|(^|_)bwd|_bwd_|BwdWeight|backward|multi_tensor_apply_kernel|transpose\(jvp|FusedAdam"
    r"|_?adamw?_?(kernel|functor)"
)
# But a convolution's gradient by its input is the forward of a transposed convolution, in an inference too: PyTorch and XLA call cuDNN's
# and MIOpen's kernels of backward data for it (cuDNN keeps them in `cudnn_infer`, those of weights in `cudnn_train`: see the names in
# tests/data/kineto/a100_collectives; igemm_bwd beside igemm_wrw in mi300_python_frames). A backward pass has others of the above as well.
EITHER: Final = r"(?i)dgrad|bwd_?data|backward_?(data|input)|igemm_bwd|conv\w*_bwd_n"
# So many of a step's layers must agree on the number: more than half.
AGREE_ABOVE: Final = 0.5


def is_training(timeline: Timeline) -> bool:
    """Whether the trace shows a backward pass or an update of parameters: programs, operators, ranges or kernels that have no other use."""
    if timeline.trace is not None and timeline.trace.gradients:
        return True
    host = timeline.rows("host_events", "name", kinds=NOT_PYTHON)["name"].unique().cast(pl.String)
    if host.str.contains(f"{events(Event.TRAINS)}|{OPTIMIZER_RANGE}").any():
        return True
    kernels = timeline.rows("device_events", "name", kinds=["kernel"])["name"].unique().cast(pl.String)
    return bool((kernels.str.contains(DEVICE_EVIDENCE) & ~kernels.str.contains(EITHER)).any())


def find_words(timeline: Timeline) -> Words:
    """The words of the framework that trains: by Python functions, stacks and ranges that only its trainer has, else by whose profiler it
    was.
    """
    names = timeline.rows("host_events", "name", kinds=["annotation", "python"])["name"]
    stacks = timeline.rows("host_events", "stack", kinds=NOT_PYTHON)["stack"]
    texts = pl.concat([each.unique().cast(pl.String) for each in (names, stacks)])
    facts = timeline.trace
    otherwise = words_of_profiler(None) if facts is None else words_of_profiler(facts.framework, facts.profiler)
    found = words_of_marks(lambda pattern: bool(texts.str.contains(pattern).any()), otherwise)
    return replace(found, profiler=otherwise.profiler)


def batch_size(timeline: Timeline, steps: pl.DataFrame) -> int | None:
    """Samples that a forward pass takes: the leading dimension of its input, the same in every step; else, or without shapes, None.

    Told by what convolutions and embeddings take; by linear layers only where a tensor of as many rows was moved before any layer: what
    layers cast on the way may be positions of all samples, one below the other.
    """
    thread = training_thread(timeline)
    if thread is None or steps.is_empty():
        return None
    calls = timeline.rows("host_events", "thread", "start_ns", "name", "shapes", kinds=["operator"])
    calls = calls.filter((pl.col("thread") == thread) & pl.col("shapes").is_not_null())
    calls = calls.with_columns(pl.col("name").cast(pl.String), pl.col("shapes").cast(pl.String))
    takes = batch_inputs()
    calls = calls.filter(pl.col("name").is_in([*takes.samples, *takes.rows, *takes.moves]))
    found: set[int | None] = set()
    for begin, end in steps.select("host_start_ns", "host_end_ns").iter_rows():
        found.add(_of_step(calls.filter(pl.col("start_ns").is_between(begin, end, closed="left")), takes))
        if len(found) > 1:
            return None
    return found.pop()


def _of_step(calls: pl.DataFrame, takes: BatchInputs) -> int | None:
    """What most layers of one step take; None where they do not agree."""
    rows = calls.sort("start_ns").select("name", "shapes").rows()
    sizes = [_leading(shapes, *takes.samples[name]) for name, shapes in rows if name in takes.samples]
    if not any(sizes):
        before = itertools.takewhile(lambda row: row[0] in takes.moves, rows)
        moved = {_leading(shapes, 0, None) for _, shapes in before}
        sizes = [size for name, shapes in rows if name in takes.rows if (size := _leading(shapes, 0, None)) in moved]
    counts = Counter(size for size in sizes if size)
    size, count = counts.most_common(1)[0] if counts else (None, 0)
    return size if count > AGREE_ABOVE * sum(counts.values()) else None


def _leading(shapes: str, which: int, dimensions: int | None) -> int | None:
    """First dimension of one of an operator's inputs; None where it has not so many dimensions (None: at least two)."""
    inputs = read_shapes(shapes) or []
    shape = inputs[which] if which < len(inputs) else []
    if len(shape) < 2 if dimensions is None else len(shape) != dimensions:
        return None
    return shape[0] if isinstance(shape[0], int) and shape[0] > 0 else None
