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

    `is_last`: the last of its epoch is among them, as far as is known. `length_is_known`: the epoch ends after a known number of batches,
    whatever the iterator gives. `may_be_last`: nobody knows whether the next call will find anything.
    """

    iterator: Any
    batches: int = 1
    is_last: bool = False
    may_be_last: bool = False
    length_is_known: bool = True


class AskingListener(Protocol):
    """Who is told before each such call. What it raises is counted."""

    def asks(self, asking: Asking) -> None:
        """This call is about to be made, on this thread."""


class AskedIterators:
    """The iterator that was asked last, and who is to be told of the next calls."""

    def __init__(self, recorder: Recorder) -> None:
        self._listeners: list[AskingListener] = []
        self.forget()
        recorder.forgetters.append(self.forget)

    def forget(self) -> None:
        """Know none, as in a forked child."""
        self._listeners.clear()
        self.length_is_known = True
        self._last: weakref.ref[Any] | None = None

    @property
    def last(self) -> Any:
        """None where none was asked, or it is gone."""
        return None if self._last is None else self._last()

    def asks(self, asking: Asking) -> None:
        """A call is about to be made. Raises what those who are told do."""
        self._last, self.length_is_known = weakref.ref(asking.iterator), asking.length_is_known
        for each in list(self._listeners):
            each.asks(asking)

    def join(self, listener: AskingListener) -> None:
        """Tell this one from now on."""
        self._listeners.append(listener)

    def leave(self, listener: AskingListener) -> None:
        """Tell it no longer."""
        self._listeners = [each for each in self._listeners if each is not listener]
