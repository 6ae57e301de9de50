"""The moment in which a GradScaler scales a loss, for whoever must know of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def when_scaling(original: Any, tell: Callable[[Any, Any], None]) -> Any:
    """What stands in for `GradScaler.scale`: `tell`, which must not raise, gets the scaler and the loss before it was scaled.

    A scaler that is disabled gives back what it got, and nothing is told.
    """

    @functools.wraps(original)
    def scale(scaler: Any, outputs: Any) -> Any:
        scaled = original(scaler, outputs)
        if scaled is not outputs:
            tell(scaler, outputs)
        return scaled

    return scale
