"""How much of its work a pipeline of tf.data has done ahead of the training, and whether it is at work: by what TensorFlow counts of it."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from slowstep.frameworks.tensorflow.inside._model import model_of, nodes_in

# Only of these what is counted as buffered is made, and has gone when it is handed on. `MapAndBatch` counts batches that it has begun.
_HOLD_READY: Final = ("Prefetch", "ParallelMap", "ParallelBatch")
# They take of their input what they hand on. All others keep elements back (`Shuffle`, `Window`), give them again (`Cache`), leave some
# out, or take of several inputs: of what lies ready before those nobody knows how many batches it makes.
_HAND_ON: Final = (
    *("Root", "Map", "Batch", "PaddedBatch", "MapAndBatch", "Options", "Model"),
    *("Repeat", "ForeverRepeat", "FiniteRepeat", "Skip", "FiniteSkip", "Take", "FiniteTake", "AssertCardinality"),
)
_VERSION: Final = re.compile(r"(Dataset)?(V\d+)?$")


@dataclass(frozen=True, slots=True)
class PipelineState:
    """`ready` batches would come at once, elements that are no batch yet as parts of one; `made` elements came out of all stages."""

    ready: float
    made: int


def state_of(resource: Any) -> PipelineState | None:
    """None where TensorFlow does not count: where autotune is off."""
    try:
        nodes = nodes_in(model_of(resource))
    except sys.modules["tensorflow"].errors.NotFoundError:
        return None
    return PipelineState(ready_in(nodes), sum(node["elements"] for node in nodes))


def ready_in(nodes: Sequence[Mapping[str, Any]]) -> float:
    """Batches that a pipeline, whose nodes are as notes have them, would give at once: what its last stages have made ahead, up to one
    that keeps elements back or takes of several inputs.
    """
    known = {node["id"]: node for node in nodes}
    read = {each for node in nodes for each in node["inputs"]}
    # Of each stage, how many of its elements one batch is made of.
    waiting = [(number, 1.0) for number in known if number not in read]
    ready = 0.0
    while waiting:
        number, needed = waiting.pop()
        node = known.pop(number, None)
        if node is None:
            continue
        kind = _VERSION.sub("", node["name"])
        if kind in _HOLD_READY:
            ready += node["buffered"] / needed
        elif kind not in _HAND_ON:
            continue
        waiting += [(each, needed * (node["ratio"] if node["ratio"] > 0 else 1.0)) for each in node["inputs"]]
    return ready
