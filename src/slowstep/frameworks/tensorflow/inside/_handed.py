"""Iterators of tf.data that give what another one would: the object that the script and its compiled functions have stays the same.

A function that is given an iterator asks which resource it reads at each call: another resource of the same types is no reason to trace it
anew.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_RESOURCE: Final = "_iterator_resource"


class HandedIterators:
    """Which iterators give something else just now, and what is their own."""

    def __init__(self, recorder: Recorder) -> None:
        self._own: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        # In a forked child nothing gives any more, and its iterators are its own again.
        recorder.forgetters.append(self.restore_all)

    def own(self, iterator: Any) -> Any:
        """Its own resource, whatever it gives just now."""
        resource = self._own.get(iterator)
        return resource_of(iterator) if resource is None else resource

    def is_replaced(self, iterator: Any) -> bool:
        """Whether it gives something else just now."""
        return iterator in self._own

    def give(self, iterator: Any, resource: Any) -> None:
        """From now on it gives what this resource does."""
        self._own.setdefault(iterator, resource_of(iterator))
        setattr(iterator, _RESOURCE, resource)

    def restore(self, iterator: Any) -> None:
        """From now on it gives its own again."""
        resource = self._own.pop(iterator, None)
        if resource is not None:
            setattr(iterator, _RESOURCE, resource)

    def restore_all(self) -> None:
        """So do all of them."""
        for iterator in list(self._own):
            self.restore(iterator)


def resource_of(iterator: Any) -> Any:
    """What it gives the batches of just now. Raises KeyError where that is none, as of one whose batches are divided among devices."""
    return vars(iterator)[_RESOURCE]
