"""Updates that a script makes beside what is jitted, by operations of its own: their last operation ends a step.

Which one it is, is found by following arrays through a few calls of what gives gradients. After that only its calls are counted.
"""

from __future__ import annotations

import sys
import weakref
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from slowstep.frameworks.jax.inside._descent import Descent, DoneAt, asked_in, done_at
from slowstep.frameworks.jax.inside._leaves import arrays
from slowstep.frameworks.jax.inside._trainings import Trained, Trainings
from slowstep.record.recorder import now

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


@dataclass(slots=True)
class _Watch:
    """The operation that ends an update: of its calls since `function` gave gradients that of this `index`, where it is done `at`."""

    function: weakref.ref[Any]
    operation: weakref.ref[Any]
    index: int
    at: DoneAt
    name: str
    trained: Trained | None = None
    calls: int = 0


class UpdatesByHand:
    """`is_following`: whether all calls are to be told, those of single operations too."""

    def __init__(self, recorder: Recorder) -> None:
        self._trainings = recorder.shared(Trainings)
        self._descent: Descent | None = None
        self._function: Any = None
        self._watches: dict[int, list[_Watch]] = {}
        self._of_function: weakref.WeakKeyDictionary[Any, _Watch] = weakref.WeakKeyDictionary()

    def forget(self) -> None:
        """Know nothing, and hold nothing of the script's."""
        self._end()
        self._watches.clear()
        self._of_function.clear()

    @property
    def is_following(self) -> bool:
        """Whether arrays are followed just now."""
        return self._descent is not None

    def gave_gradients(self, function: Any, name: str, given: Any, result: Any, *, may_begin: bool) -> None:
        """A function that takes gradients has returned; `may_begin`: this is a call after which arrays may be followed."""
        if self._trainings.are_applied:
            # The script calls optax or equinox, which tell better.
            self._end()
            return
        watch = self._of_function.get(function)
        if watch is not None:
            watch.calls = 0
        elif self._function is function and self._descent is not None:
            last = self._descent.update(given)
            if last is None:
                self._descent.called(given, result)
            else:
                self._end()
                watch = _Watch(weakref.ref(function), weakref.ref(last.operation), last.index, last.at, name)
                self._of_function[function] = watch
                self._watches.setdefault(id(last.operation), []).append(watch)
        elif self._descent is None and may_begin:
            self._descent, self._function = Descent(given, result), function

    def operated(self, operation: Any, given: Any, result: Any, frame: FrameType | None) -> None:
        """Anything else was called while arrays are followed."""
        if self._descent is not None:
            self._descent.operated(operation, given, result, frame)
            if self._descent.is_over:
                self._end()

    def watches(self, operation: Any) -> bool:
        """Whether calls of an operation are to be told of by `called`."""
        return id(operation) in self._watches

    def called(self, operation: Any, result: Any) -> None:
        """An operation that ends an update somewhere was called."""
        for watch in self._watches[id(operation)]:
            watch.calls += 1
            if watch.calls == watch.index and watch.operation() is operation and done_at(sys._getframe(1)) == watch.at:
                self._updated(watch, result)

    def _updated(self, watch: _Watch, result: Any) -> None:
        if self._trainings.are_applied:
            # What was taken for an update before is one that the script makes by a library.
            return
        if watch.trained is None:
            watch.trained = self._trainings.meet(watch.name, arrays(result), asked_in(sys._getframe(1)))
        at_ns = now()
        self._trainings.called(watch.trained, at_ns, at_ns)
        self._trainings.tell_switch(watch.trained, result)

    def _end(self) -> None:
        self._descent = self._function = None
