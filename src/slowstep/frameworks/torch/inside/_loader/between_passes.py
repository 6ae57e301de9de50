"""What a script changes of a data set between two passes over it: workers that stay keep a copy as it was.

Without workers making a batch changes attributes too (a count, a cache): there they are looked at when a pass has ended, and as the next
begins. With workers what makes batches changes copies, and all that changes here is the script's doing, in the midst of a pass too.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.attributes import held_by, own_attributes

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# Where data sets keep those that they wrap.
_WRAPPED: Final = ("dataset", "datasets")
_MOST_SETS: Final = 8
_MOST_ATTRIBUTES: Final = 100
_MOST_LOADERS: Final = 20
_NUMBERS: Final = (bool, int, float)

# By the number of the set among those that wrap each other, and the attribute's name: a number, or which object it is.
_State = dict[tuple[int, str], Any]


class BetweenPasses:
    """Keeps what loaders' data sets held; it neither keeps them alive nor changes them."""

    def __init__(self, recorder: Recorder | None = None) -> None:
        # By the id() of the loader, which is another's once it is gone.
        self._kept: dict[int, tuple[weakref.ref[Any], _State]] = {}
        self._seen: dict[int, tuple[weakref.ref[Any], list[str]]] = {}
        # By the iterator's number: loaders whose passes the training thread makes itself.
        self._reading: dict[int, weakref.ref[Any]] = {}
        if recorder is not None:
            recorder.forgetters.append(self.forget)
            recorder.undos.append(self.forget)

    def changed(self, loader: Any) -> list[str] | None:
        """The attributes that are others than when they were kept, as a pass begins; None where none were."""
        loader_ref, before = self._kept.pop(id(loader), (None, {}))
        if loader_ref is None or loader_ref() is not loader or not before:
            return None
        after = _state(held_by(loader, "dataset"))
        # One that was None is opened, or computed, when it is first asked for.
        names = sorted({name for (at, name), value in before.items() if value is not None and after.get((at, name), value) != value})
        if names:
            self._seen[id(loader)] = (loader_ref, sorted({*names, *self.seen(loader)}))
            _drop_oldest(self._seen)
        return names

    def seen(self, loader: Any) -> list[str]:
        """All attributes that were changed so far."""
        loader_ref, names = self._seen.get(id(loader), (None, []))
        return names if loader_ref is not None and loader_ref() is loader else []

    def begun(self, loader: Any, iterator: int) -> None:
        """A pass has begun."""
        reference = weakref.ref(loader)
        if held_by(loader, "num_workers"):
            self._keep(loader, reference)
        else:
            self._reading[iterator] = reference
            _drop_oldest(self._reading)

    def ended(self, iterator: int) -> None:
        """A pass has come to its end."""
        reference = self._reading.pop(iterator, None)
        loader = None if reference is None else reference()
        if loader is not None and reference is not None:
            self._keep(loader, reference)

    def forget(self) -> None:
        """Keep nothing any more."""
        self._kept.clear()
        self._seen.clear()
        self._reading.clear()

    def _keep(self, loader: Any, reference: weakref.ref[Any]) -> None:
        self._kept[id(loader)] = (reference, _state(held_by(loader, "dataset")))
        _drop_oldest(self._kept)


def _drop_oldest(kept: dict[int, Any]) -> None:
    if len(kept) > _MOST_LOADERS:
        del kept[next(iter(kept))]


def _state(whole: Any) -> _State:
    """None stands for None, a number for itself, all else for the object that it is."""
    found: _State = {}
    sets = [whole]
    for at, each in enumerate(sets):
        held = list(own_attributes(each).items())[:_MOST_ATTRIBUTES]
        found.update(((at, name), value if value is None or type(value) in _NUMBERS else (id(value),)) for name, value in held)
        for name, value in held:
            if name in _WRAPPED and len(sets) < _MOST_SETS:
                sets += value[:_MOST_SETS] if type(value) in (list, tuple) else [value]
    return found
