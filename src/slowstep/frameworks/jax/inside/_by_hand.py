"""Updates that a script makes beside what is jitted, by operations of its own: their last operation ends a step.

Which one it is, is found by following arrays through a few calls of what gives gradients. After that only its calls are counted.
"""

from __future__ import annotations

import sys
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
class Watch:
    """The operation that ends an update: of its `calls` since a function gave gradients that of this `index`, where it is done `at`."""

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
        self._watches: dict[Any, list[Watch]] = {}

    def forget(self) -> None:
        """Know nothing, and hold nothing of the script's."""
        self._end()
        self._watches.clear()

    @property
    def is_following(self) -> bool:
        """Whether arrays are followed just now."""
        return self._descent is not None

    def gave_gradients(self, function: Any, name: str, given: Any, result: Any, *, may_begin: bool) -> Watch | None:
        """A function that takes gradients has returned; `may_begin`: this is a call after which arrays may be followed.

        Returns what ends the updates of what it was given, once that is known.
        """
        if self._trainings.are_applied:
            # The script calls optax or equinox, which tell better.
            self._end()
        elif self._descent is None and may_begin:
            self._descent, self._function = Descent(given, result), function
        elif self._descent is not None and self._function is function:
            last = self._descent.update(given)
            if last is not None:
                self._end()
                watch = Watch(last.index, last.at, name)
                self._watches.setdefault(last.operation, []).append(watch)
                return watch
            self._descent.called(given, result)
        return None

    def needs_not(self, function: Any) -> None:
        """A function updates by itself, or another framework tells of its updates."""
        if self._function is function:
            self._end()

    def operated(self, operation: Any, given: Any, result: Any, frame: FrameType | None) -> None:
        """Anything else was called while arrays are followed."""
        if self._descent is not None:
            self._descent.operated(operation, given, result, frame)
            if self._descent.is_over:
                self._end()

    def watches(self, operation: Any) -> list[Watch] | None:
        """What is known of an operation that ends updates: whoever sees its calls counts them there."""
        return self._watches.get(operation)

    def ended(self, watch: Watch, result: Any) -> None:
        """The call of its index, of an operation that ends an update."""
        if done_at(sys._getframe(1)) == watch.at:
            self._updated(watch, result)

    def _updated(self, watch: Watch, result: Any) -> None:
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
