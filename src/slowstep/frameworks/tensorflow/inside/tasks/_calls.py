"""A map of a pipeline once more, with another number of calls at once: the same traced function, of which nothing is traced again."""

from __future__ import annotations

import math
import sys
from typing import Any, Final

from slowstep.frameworks.tensorflow.inside._stages import kind_of
from slowstep.record.attributes import held_by
from slowstep.record.experiment.loader_reading import AUTOTUNE

_MAP, _PARALLEL_MAP = "Map", "ParallelMap"
_IN_ORDER: Final = "true"


def calls_of(stage: Any) -> int | None:
    """How many calls a map makes at once as the script has it; None of another stage, or where that is not known."""
    if kind_of(stage) == _MAP:
        return 1
    given: Any = held_by(stage, "_num_parallel_calls") if kind_of(stage) == _PARALLEL_MAP else None
    return int(given) if hasattr(given, "numpy") else None


def counts(cores: float | None, own: int) -> list[int]:
    """The numbers that are tried: the script's own is one of them."""
    return [*sorted({1, 2, max(math.floor(cores or 1), 1), own} - {AUTOTUNE}), AUTOTUNE]


def with_calls(stage: Any, calls: int) -> Any:
    """The data set of a map with so many calls at once; order and options are the script's. Raises what TensorFlow does."""
    tf, function = sys.modules["tensorflow"], stage._map_func.function
    with tf.device("CPU:0"):
        variant = tf.raw_ops.ParallelMapDatasetV2(
            input_dataset=stage._input_dataset._variant_tensor,
            other_arguments=function.captured_inputs,
            f=function,
            num_parallel_calls=tf.constant(calls, tf.int64),
            output_types=stage._flat_types,
            output_shapes=stage._flat_shapes,
            use_inter_op_parallelism=bool(held_by(stage, "_use_inter_op_parallelism")),
            # A map that makes one call at a time keeps the order.
            deterministic=_IN_ORDER if kind_of(stage) == _MAP else str(stage._deterministic),
            preserve_cardinality=bool(held_by(stage, "_preserve_cardinality")),
        )
    return tf.data.experimental.from_variant(variant, stage.element_spec)
