"""Which iterator of tf.data a training is about to ask, told of before each of its calls that does."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """A call that is about to be made, which fetches so many batches of an iterator.

    `is_last`: the last of its epoch is among them, as far as is known. `is_counted`: the epoch ends after a known number of batches,
    whatever the iterator gives.
    """

    iterator: Any
    batches: int = 1
    is_last: bool = False
    is_counted: bool = True


class Told(Protocol):
    """Who is told before each such call. What it raises is counted."""

    def asks(self, asking: Asking) -> None:
        """This call is about to be made, on this thread."""


class AskedIterators:
    """The iterator that was asked last, and who is to be told of the next calls."""

    def __init__(self, recorder: Recorder) -> None:
        self._told: list[Told] = []
        self.forget()
        recorder.forgetters.append(self.forget)

    def forget(self) -> None:
        """Know none, as in a forked child."""
        self._told.clear()
        self.is_counted = True
        self._last: weakref.ref[Any] | None = None

    @property
    def last(self) -> Any:
        """None where none was asked, or it is gone."""
        return None if self._last is None else self._last()

    def asks(self, asking: Asking) -> None:
        """A call is about to be made. Raises what those who are told do."""
        self._last, self.is_counted = weakref.ref(asking.iterator), asking.is_counted
        for each in list(self._told):
            each.asks(asking)

    def join(self, told: Told) -> None:
        """Tell this one from now on."""
        self._told.append(told)

    def leave(self, told: Told) -> None:
        """Tell it no longer."""
        self._told = [each for each in self._told if each is not told]
