"""The profiler of whatever computes for Keras, for a capture of a few steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.jax.inside._capture import jax_capture
from slowstep.frameworks.keras.inside._framework import JAX, TENSORFLOW, TORCH, backend_name
from slowstep.frameworks.tensorflow.inside._capture import tensorflow_capture
from slowstep.frameworks.torch.inside._capture import torch_capture
from slowstep.record.steps.updates import Capturing

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_CAPTURES: Final[dict[str, Callable[[Any], Capturing | None]]] = {TENSORFLOW: tensorflow_capture, JAX: jax_capture, TORCH: torch_capture}


def keras_capture(recorder: Recorder) -> Capturing | None:
    """The one that loops of that framework have without Keras; None where none is wanted, or where it has no profiler."""
    capture = _CAPTURES.get(backend_name() or "")
    return None if capture is None else recorder.shared(capture)
