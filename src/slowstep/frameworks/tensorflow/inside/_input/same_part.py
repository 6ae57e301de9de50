"""Which part of a pipeline of tf.data gives the same in each epoch: what of it can be stored."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any, Final

from slowstep.frameworks.tensorflow.inside._input.graphs import node_of, result_of
from slowstep.record.experiment.lever import NotApplicable

_OPTIONS_PROTO: Final = "tensorflow.core.framework.dataset_options_pb2"
_OPERATIONS: Final = "tensorflow.python.framework.op_def_registry"
_DATASET: Final = re.compile(r"Dataset(V\d+)?$")
# What gives the same whenever its inputs do, and the functions that it calls.
_IN_MEMORY: Final = ("Tensor", "TensorSlice", "SparseTensorSlice", "List", "Range", "MatchingFiles")
READERS: Final = ("TFRecord", "TextLine", "FixedLengthRecord", "CSV")
_CALLING: Final = (
    *("Map", "ParallelMap", "MapAndBatch", "Filter", "ParallelFilter", "ParseExample", "Scan", "TakeWhile"),
    *("FlatMap", "Interleave", "ParallelInterleave", "LegacyParallelInterleave", "GroupByWindow", "GroupByReducer"),
)
_HANDING_ON: Final = ("Options", "Prefetch")
_REPEAT: Final = "Repeat"
_OTHERS: Final = (
    *("Batch", "ParallelBatch", "PaddedBatch", "DenseToSparseBatch", "Unbatch", "Window", "AssertCardinality"),
    *("Take", "Skip", "Shard", "Unique", "Concatenate", "Zip", _REPEAT),
)
_SAME: Final = frozenset((*_IN_MEMORY, *READERS, *_CALLING, *_HANDING_ON, *_OTHERS))
_ORDERS: Final = ("Shuffle", "ShuffleAndRepeat")
_IN_PYTHON: Final = ("PyFunc", "EagerPyFunc")
# TensorFlow counts some of them among operations with a state: what the first ones call is looked at itself, a check gives nothing, and
# the last two only stand for what a stage has.
_WITHOUT_STATE: Final = ("StatefulPartitionedCall", "If", "While", "Case", "Assert", "DummySeedGenerator", "DummyMemoryCache")
NOTHING_SAME: Final = "nothing that its pipeline reads or computes is surely the same in each epoch: {why}"
NOTHING_MADE: Final = "its pipeline neither reads files nor computes anything that could be stored"
OTHER_ORDER: Final = "before that its order is drawn again ({stage})"
ANY_ORDER: Final = "its {stage} gives elements in any order"
ENDLESS: Final = "before that it begins again by itself (repeat)"
IN_PYTHON: Final = "its {stage} calls a function in Python"
WITH_STATE: Final = "its {stage} calls {operation}, which may give something else each time"
UNKNOWN: Final = "of its {stage} that is not known"


def same_part(graph: Any) -> Any:
    """The last stage of a graph that gives the same elements in the same order in each epoch, where something was read or computed for it.

    Raises NotApplicable where there is none.
    """
    found = Sameness(graph)
    why: str | None = None
    node = node_of(graph, result_of(graph).input[0])
    while (said := found.why_not(node)) is not None:
        inputs, why = found.inputs_of(node), said
        if len(inputs) != 1:
            raise NotApplicable(NOTHING_SAME.format(why=why))
        node = inputs[0]
    while kind_in(node) in _HANDING_ON:
        node = found.inputs_of(node)[0]
    if not found.is_made(node):
        raise NotApplicable(NOTHING_MADE if why is None else NOTHING_SAME.format(why=why))
    return node


def kind_in(node: Any) -> str:
    """What a stage of a graph does, as `ParallelMap`."""
    return _DATASET.sub("", node.op)


class Sameness:
    """What stages of a graph give the same in each epoch, by the kind of each and the operations of its functions."""

    def __init__(self, graph: Any) -> None:
        self._nodes = {node.name: node for node in graph.node}
        self._functions = {each.signature.name: each for each in graph.library.function}
        self._is_any_order = any(_allows_any_order(node) for node in graph.node if kind_in(node) == "Options")
        self._known: dict[str, str | None] = {}

    def inputs_of(self, node: Any) -> list[Any]:
        """The stages that one reads."""
        read = (self._nodes.get(name.partition(":")[0]) for name in node.input)
        return [each for each in read if each is not None and _DATASET.search(each.op)]

    def why_not(self, node: Any) -> str | None:
        """Why what a stage gives may be something else in the next epoch, by the first that is to blame; None where it is the same."""
        if node.name not in self._known:
            below = (self.why_not(each) for each in self.inputs_of(node))
            self._known[node.name] = next((why for why in below if why is not None), None) or self._why_not_itself(node)
        return self._known[node.name]

    def is_made(self, node: Any) -> bool:
        """Whether anything was read or computed for what it gives."""
        return kind_in(node) in (*READERS, *_CALLING) or any(self.is_made(each) for each in self.inputs_of(node))

    def _why_not_itself(self, node: Any) -> str | None:
        kind, stage = kind_in(node), said_of(node)
        if kind in _ORDERS:
            return OTHER_ORDER.format(stage=stage)
        if kind not in _SAME:
            return UNKNOWN.format(stage=stage)
        if kind == _REPEAT and self._is_endless(node):
            return ENDLESS
        if self._gives_any_order(node):
            return ANY_ORDER.format(stage=stage)
        operation = self._with_state(node, set())
        if operation is None:
            return None
        return (IN_PYTHON if operation in _IN_PYTHON else WITH_STATE).format(stage=stage, operation=operation)

    def _is_endless(self, node: Any) -> bool:
        count = self._nodes.get(node.input[1].partition(":")[0])
        if count is None or count.op != "Const":
            return True
        return int(sys.modules["tensorflow"].make_ndarray(count.attr["value"].tensor)) < 0

    def _gives_any_order(self, node: Any) -> bool:
        said = node.attr["deterministic"].s if "deterministic" in node.attr else b"true"
        is_sloppy = "sloppy" in node.attr and node.attr["sloppy"].b
        return is_sloppy or said == b"false" or (said == b"default" and self._is_any_order)

    def _with_state(self, node: Any, seen: set[str]) -> str | None:
        """The first operation that the functions of a node call which may not do the same again."""
        for name in _functions_of(node):
            if name in seen:
                continue
            seen.add(name)
            function = self._functions.get(name)
            if function is None:
                return name
            found = (self._is_with_state(each) or self._with_state(each, seen) for each in function.node_def)
            if (operation := next((each for each in found if each is not None), None)) is not None:
                return operation
        return None

    def _is_with_state(self, node: Any) -> str | None:
        """The operation of a function, where it may not do the same again."""
        if _DATASET.search(node.op):
            return None if kind_in(node) in _SAME and not self._gives_any_order(node) else node.op
        if node.op in _WITHOUT_STATE:
            return None
        known = sys.modules[_OPERATIONS].get(node.op)
        return node.op if known is None or known.is_stateful else None


def said_of(node: Any) -> str:
    """What a script calls to have a stage: `flat_map`."""
    kind = kind_in(node).removeprefix("Legacy").removeprefix("Parallel")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).lower()


def _functions_of(node: Any) -> Iterator[str]:
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func.name
        for each in value.list.func:
            yield each.name


def _allows_any_order(node: Any) -> bool:
    options = sys.modules[_OPTIONS_PROTO].Options.FromString(node.attr["serialized_options"].s)
    return options.WhichOneof("optional_deterministic") is not None and not options.deterministic
