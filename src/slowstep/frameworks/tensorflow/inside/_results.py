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
    tensors = [each for each in sys.modules["tensorflow"].nest.flatten(result) if hasattr(each, "numpy") and hasattr(each, "dtype")]
    smallest = min(tensors, key=_bytes, default=None)
    return None if smallest is None or _bytes(smallest) > _KEPT_BYTES else partial(_is_made, smallest)


def _bytes(tensor: Any) -> int:
    # Of a text the size is not known, and it is on no device.
    return int(tensor.shape.num_elements() or 0) * (tensor.dtype.size or _KEPT_BYTES)


def _is_made(tensor: Any) -> bool:
    tensor.numpy()
    return True
