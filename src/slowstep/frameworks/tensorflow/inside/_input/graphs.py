"""A pipeline of tf.data as the graph that TensorFlow writes of it, to build it a second time with a change."""

from __future__ import annotations

import sys
from typing import Any, Final

from slowstep.record.experiment.lever import NotApplicable

_PROTO: Final = "tensorflow.core.framework.graph_pb2"
# What a graph makes anew under the name of the script's own, and gives a value.
_SHARED: Final = ("VarHandleOp", "HashTableV2", "MutableHashTableV2", "MutableDenseHashTableV2")
_RESULT: Final = "_Retval"
_MAP: Final = "MapDataset"
_PREFETCH: Final = "PrefetchDataset"
# What says how the stages before it run.
_NO_STAGES: Final = ("OptionsDataset", "ModelDataset")
AUTOTUNE: Final = -1
# What the script keeps in memory is written into the graph.
_LARGEST_BYTES: Final = 256 * 2**20
NOT_AGAIN: Final = "the pipeline cannot be built a second time: {}"
AHEAD_ALREADY: Final = "the pipeline ends in a prefetch already"
NO_MAP: Final = "no map of the pipeline makes its calls one by one"


def graph_of(dataset: Any) -> Any:
    """Raises NotApplicable where TensorFlow cannot write it, and where it shares variables or tables with the training."""
    tf = sys.modules["tensorflow"]
    try:
        # Random numbers and Python functions have a state that is no part of the graph: the second pipeline has its own.
        written = tf.raw_ops.DatasetToGraphV2(input_dataset=dataset._variant_tensor, external_state_policy=1).numpy()
        if len(written) > _LARGEST_BYTES:
            raise NotApplicable(NOT_AGAIN.format(f"it holds {len(written) / 2**20:.0f} MiB of data itself"))
        graph = sys.modules[_PROTO].GraphDef.FromString(written)
    except (tf.errors.OpError, ValueError) as error:
        raise NotApplicable(NOT_AGAIN.format(type(error).__name__)) from None
    if any(node.op in _SHARED for node in graph.node):
        raise NotApplicable(NOT_AGAIN.format("its functions use variables or tables"))
    return graph


def make_calls_parallel(graph: Any) -> int:
    """Have each map that makes one call at a time make several, as many as TensorFlow chooses, in the same order. How many those are.

    Raises NotApplicable where none does.
    """
    maps = [node for node in graph.node if node.op == _MAP]
    if not maps:
        raise NotApplicable(NO_MAP)
    calls = _number(graph, "slowstep_calls", AUTOTUNE)
    for node in maps:
        node.op = "ParallelMapDatasetV2"
        # After its input and what its function captures.
        node.input.insert(1 + len(node.attr["Targuments"].list.type), calls)
        # As the pipeline's options say: by default in order.
        node.attr["deterministic"].s = b"default"
        del node.attr["force_synchronous"]
    return len(maps)


def make_ahead(graph: Any, batches: int) -> None:
    """Have so many batches made ahead of the training. Raises NotApplicable where some are already."""
    result = next(node for node in graph.node if node.op == _RESULT)
    last = _node_of(graph, result.input[0])
    written = last
    while written.op in _NO_STAGES:
        written = _node_of(graph, written.input[0])
    if written.op == _PREFETCH:
        raise NotApplicable(AHEAD_ALREADY)
    ahead = graph.node.add()
    ahead.name, ahead.op = "slowstep_ahead", _PREFETCH
    ahead.input.extend([last.name, _number(graph, "slowstep_batches", batches)])
    for name in ("output_types", "output_shapes"):
        ahead.attr[name].CopyFrom(last.attr[name])
    result.input[0] = ahead.name


def _node_of(graph: Any, name: str) -> Any:
    return next(node for node in graph.node if node.name == name.partition(":")[0])


def _number(graph: Any, name: str, value: int) -> str:
    tf = sys.modules["tensorflow"]
    node = graph.node.add()
    node.name, node.op = name, "Const"
    node.attr["dtype"].type = tf.int64.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, tf.int64))
    return name
