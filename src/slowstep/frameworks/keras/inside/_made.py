"""What a call that trains gave, asked for whether the device has made it, by what Keras computes with."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from slowstep.frameworks.keras.inside._framework import JAX, TENSORFLOW, backend_name
from slowstep.frameworks.tensorflow.inside import _results
from slowstep.record.experiment.device_lead import Wait


def wait_for(logs: Any) -> Wait | None:
    """What waits for the metrics that callbacks are handed; None where it is not known. Raises what the framework that computes does."""
    if backend_name() == JAX:
        return partial(_is_made, logs)
    return _results.wait_for(logs) if backend_name() == TENSORFLOW else None


def _is_made(logs: Any) -> bool:
    sys.modules["jax"].block_until_ready(logs)
    return True
