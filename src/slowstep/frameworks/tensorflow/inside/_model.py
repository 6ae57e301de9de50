"""TensorFlow's model of an iterator of tf.data: what it counts of each stage of the pipeline as it runs, rewritten and with buffers."""

from __future__ import annotations

import sys
from typing import Any, Final

_PROTO: Final = "tensorflow.core.framework.model_pb2"
_ASYNCHRONOUS: Final = "ASYNC_"


def model_of(resource: Any) -> Any:
    """That of an iterator's resource. Raises what TensorFlow does: NotFoundError where autotune is off, for then nothing is counted."""
    tf = sys.modules["tensorflow"]
    with tf.device("CPU:0"):
        written = tf.raw_ops.IteratorGetModelProto(iterator=resource).numpy()
    return sys.modules[_PROTO].ModelProto.FromString(written)


def nodes_in(model: Any) -> list[dict[str, Any]]:
    """What it says of each stage, as notes have it."""
    return [_node(node) for _, node in sorted(model.nodes.items())]


def is_asynchronous(node: Any) -> bool:
    """Whether a stage of it works in threads of its own."""
    return bool(sys.modules[_PROTO].NodeClass.Name(node.node_class).startswith(_ASYNCHRONOUS))


def _node(node: Any) -> dict[str, Any]:
    found = {
        "id": int(node.id),
        "name": node.name,
        "inputs": [int(each) for each in node.inputs],
        "elements": int(node.num_elements),
        "ns": int(node.processing_time),
        "buffered": int(node.buffered_elements),
        "bytes": int(node.bytes_produced),
        "ratio": float(node.ratio),
    }
    for parameter in node.parameters:
        # What is in force now; `value` is what autotune tries next.
        if parameter.name == "buffer_size":
            found["buffer_size"] = int(parameter.state_value)
        elif parameter.name == "parallelism":
            found |= {"parallelism": int(parameter.state_value), "parallelism_tuned": bool(parameter.tunable)}
    return found
