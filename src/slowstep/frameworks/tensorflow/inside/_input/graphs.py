"""A pipeline of tf.data as the graph that TensorFlow writes of it, to build it a second time with a change."""

from __future__ import annotations

import re
import sys
from typing import Any, Final

from slowstep.frameworks.tensorflow.inside._input.resources import bytes_of
from slowstep.frameworks.tensorflow.inside._stages import NO_STAGE, inputs_of
from slowstep.levers._input.room import MIB
from slowstep.record.attributes import held_by
from slowstep.record.experiment.lever import NotApplicable
from slowstep.record.experiment.loader_reading import AUTOTUNE

_PROTO: Final = "tensorflow.core.framework.graph_pb2"
# What a graph makes anew under the name of the script's own, and gives a value.
_SHARED: Final = ("VarHandleOp", "HashTableV2", "MutableHashTableV2", "MutableDenseHashTableV2")
# Of these a second reader takes what the training would get, fails, or gets what the first one has made; without the version's number.
ONE_READER: Final = {
    "CacheDataset": "it has a cache, which both would fill",
    "SnapshotDataset": "it has a snapshot, which both would write",
    "SaveDataset": "it saves what it makes, and both would write it",
    "DataServiceDataset": "it reads from a tf.data service, whose elements the training would miss",
    "GeneratorDataset": "it reads a generator in Python, and both might read one thing",
}
_RESULT: Final = "_Retval"
_MAP: Final = "MapDataset"
_PREFETCH: Final = "PrefetchDataset"
# What the script keeps in memory is written into the graph.
_LARGEST_BYTES: Final = 256 * MIB
_MOST_STAGES: Final = 64
_VERSION: Final = re.compile(r"V\d+$")
NOT_AGAIN: Final = "the pipeline cannot be built a second time: {}"
AHEAD_ALREADY: Final = "the pipeline ends in a prefetch already"
NO_MAP: Final = "no map of the pipeline makes its calls one by one"


def graph_of(dataset: Any) -> Any:
    """Raises NotApplicable where TensorFlow cannot write it, where it holds too much, and where a second reader would harm the training."""
    tf = sys.modules["tensorflow"]
    # Before anything is copied, on the training's thread.
    _check_size(_held_bytes(dataset))
    try:
        # Random numbers and Python functions have a state that is no part of the graph: the second pipeline has its own.
        written = tf.raw_ops.DatasetToGraphV2(input_dataset=dataset._variant_tensor, external_state_policy=1).numpy()
        _check_size(len(written))
        graph = parsed(written)
    except (tf.errors.OpError, ValueError) as error:
        raise NotApplicable(NOT_AGAIN.format(type(error).__name__)) from None
    _check_readers(graph)
    return graph


def parsed(written: bytes) -> Any:
    """A graph as TensorFlow has written it."""
    return sys.modules[_PROTO].GraphDef.FromString(written)


def _held_bytes(dataset: Any) -> int:
    """What the tensors take that the data sets at its sources were made of."""
    waiting, found, looked_at = [dataset], 0, 0
    while waiting and looked_at < _MOST_STAGES:
        each, looked_at = waiting.pop(), looked_at + 1
        found += bytes_of(held_by(each, "_tensors") or ())
        waiting += inputs_of(each)
    return found


def _check_size(size_bytes: int) -> None:
    if size_bytes > _LARGEST_BYTES:
        raise NotApplicable(NOT_AGAIN.format(f"it holds {size_bytes / MIB:.0f} MiB of data itself"))


def _check_readers(graph: Any) -> None:
    functions = (node for function in graph.library.function for node in function.node_def)
    found = {node.op for nodes in (graph.node, functions) for node in nodes}
    if found & set(_SHARED):
        raise NotApplicable(NOT_AGAIN.format("its functions use variables or tables"))
    unversioned = {_VERSION.sub("", op) for op in found}
    why = next((why for op, why in ONE_READER.items() if op in unversioned), None)
    if why is not None:
        raise NotApplicable(NOT_AGAIN.format(why))


def make_calls_parallel(graph: Any) -> None:
    """Have each map that makes one call at a time make several, as many as TensorFlow chooses, in the same order.

    Raises NotApplicable where none does.
    """
    maps = [node for node in graph.node if node.op == _MAP]
    if not maps:
        raise NotApplicable(NO_MAP)
    calls = constant_in(graph, "slowstep_calls", AUTOTUNE)
    for node in maps:
        node.op = "ParallelMapDatasetV2"
        # After its input and what its function captures.
        node.input.insert(1 + len(node.attr["Targuments"].list.type), calls)
        # As the pipeline's options say: by default in order.
        node.attr["deterministic"].s = b"default"
        del node.attr["force_synchronous"]


def make_ahead(graph: Any, batches: int) -> None:
    """Have so many batches made ahead of the training. Raises NotApplicable where some are already."""
    result = result_of(graph)
    last = node_of(graph, result.input[0])
    written = last
    while written.op == f"{NO_STAGE}Dataset":
        written = node_of(graph, written.input[0])
    if written.op == _PREFETCH:
        raise NotApplicable(AHEAD_ALREADY)
    ahead = graph.node.add()
    ahead.name, ahead.op = "slowstep_ahead", _PREFETCH
    ahead.input.extend([last.name, constant_in(graph, "slowstep_batches", batches)])
    for name in ("output_types", "output_shapes"):
        ahead.attr[name].CopyFrom(last.attr[name])
    result.input[0] = ahead.name


def result_of(graph: Any) -> Any:
    """The node that says what the whole pipeline is."""
    return next(node for node in graph.node if node.op == _RESULT)


def node_of(graph: Any, name: str) -> Any:
    """The node that an input of another one is of."""
    return next(node for node in graph.node if node.name == name.partition(":")[0])


def dataset_of(graph: Any, name: str) -> Any:
    """The variant of the data set that a node of it makes. Raises what TensorFlow does."""
    part = type(graph)()
    part.CopyFrom(graph)
    result_of(part).input[0] = name
    return sys.modules["tensorflow"].raw_ops.DatasetFromGraph(graph_def=part.SerializeToString())


def length_of(dataset: Any) -> int:
    """How many elements a variant has; below 0 where it has no end, or nobody knows. Raises what TensorFlow does."""
    return int(sys.modules["tensorflow"].raw_ops.DatasetCardinality(input_dataset=dataset))


def constant_in(graph: Any, name: str, value: Any, dtype: Any = None) -> str:
    """Put in one; whole numbers where nothing else is said. Its name."""
    tf = sys.modules["tensorflow"]
    kind = dtype or tf.int64
    node = graph.node.add()
    node.name, node.op = name, "Const"
    node.attr["dtype"].type = kind.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, kind))
    return name
