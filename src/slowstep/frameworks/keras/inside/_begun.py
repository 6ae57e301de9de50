"""Batches that have begun, and whether the loop that began one still runs: none is told where it was left by an exception."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Final

# A list of callbacks of the script's own may have methods around those of Keras.
_TELLS: Final = "on_train_batch_begin"


@dataclass(slots=True)
class Begun:
    """A batch that has begun at an instant (ns), by its number. `frame` is the id() of the loop's frame, which is not kept: with its code
    it tells whether that still runs.
    """

    at_ns: int
    batch: int
    frame: int
    code: CodeType


class BegunBatches(threading.local):
    """Those of this thread, by the id() of their list of callbacks, or of the model that is called: both live longer."""

    def __init__(self) -> None:
        self._begun: dict[int, Begun] = {}

    def forget(self) -> None:
        """Know none, as in a forked child."""
        self._begun.clear()

    def begins(self, key: Any, at_ns: int, batch: int, loop: FrameType) -> None:
        """One begins, in a loop; those of loops that were left are forgotten."""
        if self._begun:
            running = _running(loop)
            self._begun = {known: begun for known, begun in self._begun.items() if (begun.frame, id(begun.code)) in running}
        while loop.f_code.co_name == _TELLS and loop.f_back is not None:
            loop = loop.f_back
        self._begun[id(key)] = Begun(at_ns, batch, id(loop), loop.f_code)

    def ends(self, key: Any) -> Begun | None:
        """The one that is over, with a result or without; None where its begin was not seen."""
        return self._begun.pop(id(key), None)

    def is_any_open(self) -> bool:
        """Whether what this thread does just now is a part of a batch that has begun."""
        if not self._begun:
            return False
        running = _running(sys._getframe(1))
        return any((begun.frame, id(begun.code)) in running for begun in self._begun.values())


def _running(frame: FrameType | None) -> set[tuple[int, int]]:
    """By id(): to hash a code takes as long as it is."""
    found = set()
    while frame is not None:
        found.add((id(frame), id(frame.f_code)))
        frame = frame.f_back
    return found
