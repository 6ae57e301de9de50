"""Inputs of a pipeline of tf.data that are read one after the other, several of them at once."""

from __future__ import annotations

import sys
from typing import Any, Final

from slowstep.frameworks.tensorflow.inside._input.graphs import constant_in, dataset_of, length_of
from slowstep.record.experiment.lever import NotApplicable
from slowstep.record.experiment.loader_reading import AUTOTUNE

_FLAT_MAP: Final = "FlatMapDataset"
_INTERLEAVE: Final = "InterleaveDataset"
_PARALLEL: Final = "ParallelInterleaveDatasetV4"
_UNKNOWN: Final = -1
NO_INPUTS: Final = "no flat_map of the pipeline, and no interleave without num_parallel_calls, reads one input after the other"
OF_ONE: Final = "its flat_map or interleave reads one input, and there are no several that could be read at once"
OF_PARTS: Final = "its flat_map joins parts of what came before it (window), and these would be mixed up"


def interleave_inputs(graph: Any) -> None:
    """Have each flat_map and each interleave that reads its inputs one by one read several at once, as many as TensorFlow chooses.

    An interleave keeps its order; of a flat_map elements come in turns. Raises NotApplicable where there is none.
    """
    found = [node for node in graph.node if node.op in (_FLAT_MAP, _INTERLEAVE)]
    if not found:
        raise NotApplicable(NO_INPUTS)
    whole = [node for node in found if not _is_of_parts(graph, node)]
    if not whole:
        raise NotApplicable(OF_PARTS)
    several = [node for node in whole if _inputs_in(graph, node) != 1]
    if not several:
        raise NotApplicable(OF_ONE)
    tuned, one = constant_in(graph, "slowstep_tuned", AUTOTUNE), constant_in(graph, "slowstep_one", 1)
    for node in several:
        if node.op == _FLAT_MAP:
            # How many are in turn, and how many elements come of each.
            node.input.extend([tuned, one])
        # How much is made ahead of each, of how many more, and how many calls are made at once.
        node.input.extend([tuned] * 3)
        node.op = _PARALLEL
        # As the pipeline's options say: by default in order.
        node.attr["deterministic"].s = b"default"


def _is_of_parts(graph: Any, node: Any) -> bool:
    """Whether what it reads are data sets themselves, or may be."""
    function = next((each for each in graph.library.function if each.signature.name == node.attr["f"].func.name), None)
    if function is None:
        return True
    own = len(function.signature.input_arg) - len(node.attr["Targuments"].list.type)
    variant = sys.modules["tensorflow"].variant.as_datatype_enum
    return any(each.type == variant for each in function.signature.input_arg[:own])


def _inputs_in(graph: Any, node: Any) -> int:
    """How many inputs it reads; below 0 where nobody knows."""
    tf = sys.modules["tensorflow"]
    try:
        return length_of(dataset_of(graph, node.input[0]))
    except tf.errors.OpError:
        return _UNKNOWN
