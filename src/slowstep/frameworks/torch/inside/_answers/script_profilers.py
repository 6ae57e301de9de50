"""Profilers of torch that the script has started, those among them that wait for their turn."""

from __future__ import annotations

import functools
import weakref
from typing import Any

from slowstep.record.living import objects
from slowstep.record.patch import Undo, replace
from slowstep.record.timing.tracebacks import hide_own_frames


class ScriptProfilers:
    """Notes each that is started from now on, and those that are there already. `undo` ends that.

    They are not looked for when the answer is needed: after `gc.freeze()` nobody finds one that a function's local variable holds.
    """

    def __init__(self, torch: Any) -> None:
        self._known: list[weakref.ref[Any]] = []
        self.undo: Undo = lambda: None
        kind = getattr(getattr(torch, "profiler", None), "profile", None)
        if isinstance(kind, type) and hasattr(kind, "start"):
            self._known += [weakref.ref(each) for each in objects() if issubclass(type(each), kind)]
            self.undo = replace(kind, "start", self._noting(kind.start))

    def _noting(self, original: Any) -> Any:
        @functools.wraps(original)
        def start(profiler: Any, /, *args: Any, **kwargs: Any) -> Any:
            self._known.append(weakref.ref(profiler))
            try:
                return original(profiler, *args, **kwargs)
            except BaseException:  # passed on, without our frames in the traceback
                hide_own_frames()
                raise

        return start

    def are_there(self) -> bool:
        """Whether any is still held: one that has ended may begin again."""
        return any(known() is not None for known in self._known)
