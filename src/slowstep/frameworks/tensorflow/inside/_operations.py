"""How many operations a call of a traced function runs: it bounds what a call takes however small the batch is."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any, Final

from slowstep.record.steps.traced_operations import ANY, MOST_OPERATIONS, ONE, Operations, TooMany, TraceSize

_DEEPEST: Final = 16
# What runs nothing, or is taken out before a graph runs.
_NOTHING: Final = frozenset(
    {"Const", "NoOp", "Identity", "IdentityN", "StopGradient", "PreventGradient", "Placeholder", "PlaceholderWithDefault"}
)
_CALLS: Final = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_BRANCHES: Final = {
    "If": ("then_branch", "else_branch"),
    "StatelessIf": ("then_branch", "else_branch"),
    "Case": ("branches",),
    "StatelessCase": ("branches",),
}
# Loops of graphs from before there were functions in them, code in Python, and what waits for others: nobody knows how long.
_UNKNOWN: Final = ("Enter", "RefEnter", "PyFunc", "PyFuncStateless", "EagerPyFunc", "Collective", "Nccl", "Send", "Recv")
# What XLA compiles is fused: all that is known is that it runs no more.
_FUSED: Final = "_XlaMustCompile"


def size_of(function: Any) -> TraceSize:
    """What a call of a traced function runs, and the variables that it reads. Raises TooMany, and what TensorFlow does."""
    return TraceSize(operations_of(function), elements_of(function))


def operations_of(function: Any) -> Operations:
    """Those that a call of a traced function runs, with those of all functions that it calls: on several devices they may run at once.
    Raises TooMany, and what TensorFlow does.
    """
    count = _Count()
    found = count.of(function.graph, _DEEPEST)
    is_one_by_one = len(count.devices) < 2 and not _says_fused(function.function_def) and not _fuses_all()
    return found if is_one_by_one else Operations(0, found.most)


def elements_of(function: Any) -> int | None:
    """Elements of all variables that a traced function reads; None where the shape of one is open."""
    sizes = [each.shape.num_elements() for each in function.graph.variables]
    return None if None in sizes else sum(sizes)


class _Count:
    """One count; a function that is called twice is looked at once."""

    def __init__(self) -> None:
        self._known: dict[str, Operations] = {}
        self._seen = 0
        self.devices: set[str] = set()

    def of(self, graph: Any, deepest: int) -> Operations:
        operations = graph.get_operations()
        self._seen += len(operations)
        if self._seen > MOST_OPERATIONS:
            raise TooMany
        needed, constant = _needed(graph, operations), _constant(operations)
        total = Operations(0, 0)
        for operation in operations:
            if operation in needed and operation not in constant and operation.type not in _NOTHING:
                total += self._one(graph, operation, deepest)
        return total

    def _one(self, graph: Any, operation: Any, deepest: int) -> Operations:
        if operation.device:
            self.devices.add(operation.device.lower().rpartition("device:")[2])
        if operation.type.startswith(_UNKNOWN):
            return ANY
        attributes = operation.node_def.attr
        if operation.type in _CALLS:
            inner = self._function(graph, attributes["f"].func.name, deepest)
            return ONE + (Operations(0, inner.most) if _is_fused(graph, operation) else inner)
        if operation.type in _BRANCHES:
            return ONE + self._any_of(graph, [attributes[name] for name in _BRANCHES[operation.type]], deepest)
        return ONE if not any(_has_function(each) for each in attributes.values()) else ANY

    def _any_of(self, graph: Any, branches: Iterable[Any], deepest: int) -> Operations:
        names = [one.name for each in branches for one in ([each.func] if each.HasField("func") else each.list.func)]
        counted = [self._function(graph, name, deepest) for name in names] or [ANY]
        most = [each.most for each in counted if each.most is not None]
        return Operations(min(each.fewest for each in counted), max(most) if len(most) == len(counted) else None)

    def _function(self, graph: Any, name: str, deepest: int) -> Operations:
        if name not in self._known:
            inner = getattr(graph._get_function(name), "graph", None)
            self._known[name] = ANY if inner is None or not deepest else self.of(inner, deepest - 1)
        return self._known[name]


def _needed(graph: Any, operations: list[Any]) -> set[Any]:
    """Those that what it gives, or does, depends on."""
    found = {tensor.op for tensor in graph.outputs} | set(graph.control_outputs)
    for operation in reversed(operations):
        if operation in found:
            found.update(tensor.op for tensor in operation.inputs)
            found.update(operation.control_inputs)
    return found


def _constant(operations: list[Any]) -> set[Any]:
    """Those that give the same each time, and are computed once."""
    found: set[Any] = set()
    for operation in operations:
        if operation.type == "Const" or (
            operation.inputs and not operation.op_def.is_stateful and all(tensor.op in found for tensor in operation.inputs)
        ):
            found.add(operation)
    return found


def _is_fused(graph: Any, operation: Any) -> bool:
    called = graph._get_function(operation.node_def.attr["f"].func.name)
    return _says_fused(operation.node_def) or _says_fused(getattr(called, "cached_definition", None))


def _says_fused(definition: Any) -> bool:
    attributes = getattr(definition, "attr", {})
    return _FUSED in attributes and bool(attributes[_FUSED].b)


def _fuses_all() -> bool:
    """Whether XLA compiles whatever it can, also where nothing asks for it."""
    return bool(sys.modules["tensorflow"].config.optimizer.get_jit()) or "auto_jit" in os.environ.get("TF_XLA_FLAGS", "")


def _has_function(attribute: Any) -> bool:
    return bool(attribute.HasField("func") or attribute.list.func)
