"""Numbers for objects of the training, without touching them and without keeping them alive."""

from __future__ import annotations

import itertools
import weakref
from typing import Any


class Known:
    """Numbers for objects by identity: 1, 2, 3 ... in the order in which they are first met."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew, for a forked child."""
        self._numbers: dict[int, tuple[int, weakref.ref[Any]]] = {}
        self._next = itertools.count(1).__next__

    def get(self, thing: Any) -> int | None:
        """The object's number; None when it is new."""
        entry = self._numbers.get(id(thing))
        # An id() is used again for another object once the first is gone.
        if entry is None or entry[1]() is not thing:
            return None
        return entry[0]

    def living(self) -> list[Any]:
        """The objects that are still there."""
        return [thing for _, reference in list(self._numbers.values()) if (thing := reference()) is not None]

    def add(self, thing: Any) -> int:
        """Number a new object. Raises TypeError where it takes no weak references."""
        number, key, numbers = self._next(), id(thing), self._numbers
        numbers[key] = (number, weakref.ref(thing, lambda _: numbers.pop(key, None)))
        return number
