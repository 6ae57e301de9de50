"""Whether a backward pass shares its gradients: what DistributedDataParallel has kept of its last forward."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.writing.format import SYNC_UNKNOWN, SYNCED, SYNCED_ANEW, UNSYNCED

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# Set by each forward with gradients: whether the backward after it is to share them. Not public, and only read.
_PREPARED: Final = "require_forward_param_sync"
_PARAMETERS: Final = "_module_parameters"
_MOST: Final = 16


class SharedModels:
    """The models that were wrapped for several ranks, while they live."""

    def __init__(self, recorder: Recorder) -> None:
        self._models: list[weakref.ref[Any]] = []

    def add(self, model: Any) -> None:
        """One was made."""
        if len(self._models) < _MOST:
            self._models.append(weakref.ref(model))

    def sync(self) -> int:
        """What a backward pass that begins now does; not known where several models take turns, or none lives."""
        living = [model for model in (reference() for reference in self._models) if model is not None]
        if len(living) != 1 or len(self._models) >= _MOST:
            return SYNC_UNKNOWN
        prepared = living[0].__dict__.get(_PREPARED)
        if type(prepared) is not bool:
            return SYNC_UNKNOWN
        if not prepared:
            return UNSYNCED
        return SYNCED_ANEW if _has_no_gradient(living[0]) else SYNCED


def _has_no_gradient(model: Any) -> bool:
    """By two of its parameters, for to ask all would take long; some may never have one."""
    parameters, parameter = model.__dict__.get(_PARAMETERS), sys.modules["torch"].nn.Parameter
    ends = [parameters[0], parameters[-1]] if type(parameters) is list and parameters else []
    return bool(ends) and all(type(each) is parameter and each.grad is None for each in ends)
