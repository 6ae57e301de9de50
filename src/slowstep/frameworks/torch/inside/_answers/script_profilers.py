"""Profilers of torch that the script has started, those among them that wait for their turn."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, Final

from slowstep.record.living import TooManyObjects, objects
from slowstep.record.patch import Undo, replace
from slowstep.record.timing.tracebacks import hide_own_frames

# None until a profiler of torch 2.13 starts: the first of one that records at once, the second of one that waits for its turn.
_SET_BY_START: Final = ("profiler", "step_rec_fn")


class ScriptProfilers:
    """Notes each that is started from now on, and those that were before. `undo` ends that. `fault` is told of errors of our own.

    They are not looked for when the answer is needed: after `gc.freeze()` nobody finds one that a function's local variable holds.
    """

    def __init__(self, torch: Any, fault: Callable[[Exception], None]) -> None:
        # By their numbers: a set would ask a profiler of the user's own for its hash.
        self._known: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._fault, self._all_known = fault, True
        self.undo: Undo = lambda: None
        kind = getattr(getattr(torch, "profiler", None), "profile", None)
        if isinstance(kind, type) and hasattr(kind, "start"):
            self._look_for(kind)
            self.undo = replace(kind, "start", self._noting(kind.start))

    def _look_for(self, kind: type) -> None:
        try:
            self._known.update({id(each): each for each in objects() if issubclass(type(each), kind) and _may_be_started(each)})
        except TooManyObjects:
            self._all_known = False

    def _noting(self, original: Any) -> Any:
        @functools.wraps(original)
        def start(profiler: Any, /, *args: Any, **kwargs: Any) -> Any:
            self._note(profiler)
            try:
                return original(profiler, *args, **kwargs)
            except BaseException:  # passed on, without our frames in the traceback
                hide_own_frames()
                raise

        return start

    def _note(self, profiler: Any) -> None:
        try:
            self._known[id(profiler)] = profiler
        except Exception as error:  # the script's call goes on, whatever is wrong with ours
            self._all_known = False
            self._fault(error)

    def are_there(self) -> bool | None:
        """Whether any is still held: one that has ended may begin again. None where that is not known."""
        if len(self._known):
            return True
        return False if self._all_known else None


def _may_be_started(profiler: Any) -> bool:
    own = object.__getattribute__(profiler, "__dict__")
    return not all(name in own and own[name] is None for name in _SET_BY_START)
