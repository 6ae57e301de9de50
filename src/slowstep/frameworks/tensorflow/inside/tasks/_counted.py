"""What TensorFlow's model of a pipeline tells of it once it was read for a while."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from slowstep.frameworks.tensorflow.inside._model import is_asynchronous

_PREFETCH: Final = "Prefetch"
# A training whose input runs ahead but for this share of its time is taken for one whose input does so wholly, and one whose input runs
# when it is asked for but for this share, for one that makes all of it then: the prediction of the whole is off by a tenth at most, within
# which halves explain a whole (`CLOSE` in prove/bench/overlap.py).
_NEARLY_NONE: Final = 0.1


def inputs_per_element(model: Any, kind: str) -> float | None:
    """How many elements a stage has taken of its input for each that it gave; None where that is not counted."""
    nodes, number = dict(model.nodes.items()), model.output
    while (node := nodes.get(number)) is not None and node.inputs:
        taken, number = nodes.get(node.inputs[0]), node.inputs[0]
        if kind in node.name:
            return taken.num_elements / node.num_elements if taken is not None and node.num_elements else None
    return None


def runs_ahead(model: Any, wall_ns: int) -> bool | None:
    """Whether elements are made while nobody asks for one, by what its stages took in so long a time; None where a part of the work is.

    Stages run when they are asked for an element, up to the first that works in threads of its own: as TensorFlow runs them, which makes
    several stages one, and puts a prefetch behind them.
    """
    if not any(_works_ahead(node) for node in model.nodes.values()):
        return False
    asked_ns = sum(node.processing_time for node in _run_when_asked(model))
    if asked_ns <= _NEARLY_NONE * wall_ns:
        return True
    # In several threads others take less of the time than this.
    all_ns = sum(node.processing_time for node in model.nodes.values())
    return False if all_ns - asked_ns <= _NEARLY_NONE * all_ns else None


def _run_when_asked(model: Any) -> Iterator[Any]:
    waiting = [model.output]
    while waiting:
        node = model.nodes.get(waiting.pop())
        if node is not None and not _works_ahead(node):
            yield node
            waiting += node.inputs


def _works_ahead(node: Any) -> bool:
    # Without a buffer a prefetch hands on what it is asked for.
    return is_asynchronous(node) and (
        node.name != _PREFETCH or any(each.name == "buffer_size" and each.state_value for each in node.parameters)
    )
