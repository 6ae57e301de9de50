"""Whether a trace is of a training, and how many samples a step of it has."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Final

import polars as pl

from slowstep.analyses.events.training_thread import OPTIMIZER_RANGE, training_thread
from slowstep.timeline.shapes import read_shapes
from slowstep.timeline.timeline import Timeline
from slowstep.timeline.trace_tables import NOT_PYTHON

# Evidence of a backward pass or of an update, each by names that nothing else has: autograd's nodes (PyTorch), gradient functions, kernels
# of gradients and training operators (TensorFlow: `StatefulPartitionedCall/gradient_tape/model/dense/MatMul:MatMul`, `...:ReluGrad` in the
# trace of Keras' fit in tests/data/xplane), transposes of JAX' differentiation in the names of its operations, optimizers' operators.
# `Conv2DBackpropInput` alone is none: TensorFlow computes the forward of Conv2DTranspose with it.
HOST_EVIDENCE: Final = (
    r"^autograd::engine::evaluate_function|^(struct )?torch::autograd::|^[A-Z]\w*Backward\d*$|_backward$|_backward_data$"
    r"|^CompiledFunctionBackward|(^|/)gradient_tape/|(^|/)gradients?/|:\w+(Grad|BackpropFilter)(V\d)?$|^(Resource)?(Sparse)?Apply(Adam|Gradient|Momentum|Adagrad|RMS|Ftrl)"
    r"|transpose\(jvp|^aten::_(fused|foreach)_(adam|adamw|sgd|adagrad)|^Optimizer\.zero_grad#"
)
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
# Operators that take a batch of samples: which of their inputs it is, and the number of its dimensions. An embedding looks up
# (samples, positions).
LAYERS: Final = {"aten::conv1d": (0, 3), "aten::conv2d": (0, 4), "aten::conv3d": (0, 5), "aten::embedding": (1, 2)}
# An operator that takes rows, which are samples or positions of samples: only with an input of as many samples beside it.
ROWS: Final = "aten::linear"
MOVES: Final = ("aten::to", "aten::_to_copy")
# So many of a step's layers must agree on the number: more than half.
AGREE_ABOVE: Final = 0.5


def is_training(timeline: Timeline) -> bool:
    """Whether the trace shows a backward pass or an update of parameters: programs, operators, ranges or kernels that have no other use."""
    if timeline.trace is not None and timeline.trace.gradients:
        return True
    host = timeline.rows("host_events", "name", kinds=NOT_PYTHON)["name"].unique().cast(pl.String)
    if host.str.contains(f"{HOST_EVIDENCE}|{OPTIMIZER_RANGE}").any():
        return True
    events = timeline.rows("device_events", "name", kinds=["kernel"])["name"].unique().cast(pl.String)
    return bool((events.str.contains(DEVICE_EVIDENCE) & ~events.str.contains(EITHER)).any())


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
    calls = calls.filter(pl.col("name").is_in([*LAYERS, ROWS, *MOVES]))
    found: set[int | None] = set()
    for begin, end in steps.select("host_start_ns", "host_end_ns").iter_rows():
        found.add(_of_step(calls.filter(pl.col("start_ns").is_between(begin, end, closed="left"))))
        if len(found) > 1:
            return None
    return found.pop()


def _of_step(calls: pl.DataFrame) -> int | None:
    """What most layers of one step take; None where they do not agree."""
    rows = calls.sort("start_ns").select("name", "shapes").rows()
    sizes = [_leading(shapes, *LAYERS[name]) for name, shapes in rows if name in LAYERS]
    if not any(sizes):
        before = itertools.takewhile(lambda row: row[0] in MOVES, rows)
        moved = {_leading(shapes, 0, None) for _, shapes in before}
        sizes = [size for name, shapes in rows if name == ROWS if (size := _leading(shapes, 0, None)) in moved]
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
