"""What a call gave, asked for whether the device has made it: beside another device than a processor calls return before that."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any, Final

from slowstep.record.experiment.device_lead import Wait

# No more than this is held of the script's until the next call, and brought to the host.
_KEPT_BYTES: Final = 65536


def wait_for(result: Any) -> Wait | None:
    """What waits until the smallest tensor of a result is made; None where it has none that is small. Raises what TensorFlow does."""
    tensorflow = sys.modules["tensorflow"]
    # Whole numbers and texts are kept on the host; of a ragged one the size is not known, and to wait for an empty one waits for nothing.
    dense = [each for each in tensorflow.nest.flatten(result) if tensorflow.is_tensor(each) and hasattr(each, "numpy")]
    tensors = [each for each in dense if each.dtype.is_floating and each.shape.num_elements()]
    smallest = min(tensors, key=_bytes, default=None)
    return None if smallest is None or _bytes(smallest) > _KEPT_BYTES else partial(_is_made, smallest)


def _bytes(tensor: Any) -> int:
    return int(tensor.shape.num_elements() * tensor.dtype.size)


def _is_made(tensor: Any) -> bool:
    tensor.numpy()
    return True
