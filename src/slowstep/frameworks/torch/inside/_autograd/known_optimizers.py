"""All optimizers that were built, also those that are not called yet: what they hold is read of themselves, when it is asked for."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


class KnownOptimizers:
    """Refers to optimizers weakly, and to no parameter: torch refuses to swap one to which a weak reference points."""

    def __init__(self, recorder: Recorder | None = None) -> None:
        self._known: dict[int, weakref.ref[Any]] = {}
        if recorder is not None:
            recorder.undos.append(self._known.clear)

    def given(self, optimizer: Any) -> None:
        """It is given parameters. Raises TypeError where it takes no weak references."""
        key, known = id(optimizer), self._known
        if key not in known:
            known[key] = weakref.ref(optimizer, lambda _: known.pop(key, None))

    def held(self) -> set[int]:
        """The id() of each parameter that any of them holds by now."""
        # A list: another thread may build an optimizer meanwhile.
        optimizers = [ref() for ref in list(self._known.values())]
        groups = [group for optimizer in optimizers for group in getattr(optimizer, "param_groups", ())]
        return {id(parameter) for group in groups for parameter in group["params"]}
