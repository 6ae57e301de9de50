"""Where a data set keeps what it does to its samples: lists of transforms, `Compose`-like objects, and single functions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

# Data sets within data sets, and a Compose within a pair of transforms: deeper is somebody's object graph.
_DEEPEST: Final = 5
MOST_SLOTS: Final = 24
# What objects made of transforms call them: torchvision, its pair for input and target, torch.nn.Sequential.
_HELD: Final = ("transforms", "transform", "target_transform", "_modules")


class Slot:
    """One callable that hangs in an object of the user's: in an attribute, or in a list, tuple or dict that an attribute holds."""

    def __init__(self, owner: Any, attribute: str, key: Any = None) -> None:
        self._owner, self._attribute, self._key = owner, attribute, key
        self.original = self._get()
        self.name = _name(self.original)

    def put(self, function: Callable[..., Any]) -> None:
        """Put a callable in its place. Raises what the object raises."""
        held = getattr(self._owner, self._attribute)
        if self._key is None:
            setattr(self._owner, self._attribute, function)
        elif isinstance(held, tuple):
            setattr(self._owner, self._attribute, (*held[: self._key], function, *held[self._key + 1 :]))
        else:
            held[self._key] = function

    def restore(self) -> None:
        """Put the original back."""
        if self._get() is not self.original:
            self.put(self.original)

    def _get(self) -> Callable[..., Any]:
        held = getattr(self._owner, self._attribute)
        found: Callable[..., Any] = held if self._key is None else held[self._key]
        return found


def find_slots(dataset: Any) -> list[Slot]:
    """The callables of a data set and of the data sets inside it, each once; at most MOST_SLOTS."""
    return list(islice(_walk(dataset, 0, set()), MOST_SLOTS))


def _walk(owner: Any, depth: int, seen: set[int]) -> Iterator[Slot]:
    """The callables in an object's own attributes. Not `dir`: properties compute, and may raise anything."""
    if depth > _DEEPEST:
        return
    for attribute, value in dict(getattr(owner, "__dict__", {})).items():
        if id(value) in seen:
            continue
        if _is_step(value):
            seen.add(id(value))
            yield from _walk(value, depth + 1, seen) if _is_made_of_steps(value) else [Slot(owner, attribute)]
        elif _keys(value):
            seen.add(id(value))
            yield from (Slot(owner, attribute, key) for key in _keys(value))
        else:
            for inner in value[:MOST_SLOTS] if isinstance(value, (list, tuple)) else (value,):
                if _is_data(inner) and id(inner) not in seen:
                    seen.add(id(inner))
                    yield from _walk(inner, depth + 1, seen)


def _keys(value: Any) -> list[Any]:
    """The keys of a list, tuple or dict of nothing but callables; none for anything else."""
    if isinstance(value, (list, tuple)):
        return list(range(len(value))) if all(map(_is_step, value)) else []
    # torch before 2.6 keeps a model's parts in ordered ones.
    if type(value) in (dict, OrderedDict):
        return list(value) if all(map(_is_step, value.values())) else []
    return []


def _is_made_of_steps(value: Any) -> bool:
    own = getattr(value, "__dict__", {})
    return any(_keys(own.get(name)) or _is_step(own.get(name)) for name in _HELD)


def _is_step(value: Any) -> bool:
    return callable(value) and not isinstance(value, type) and not _is_data(value)


def _is_data(value: Any) -> bool:
    return any(kind.__name__ in ("Dataset", "IterableDataset") and kind.__module__.startswith("torch.") for kind in type(value).__mro__)


def _name(function: Any) -> str:
    name = getattr(function, "__qualname__", None)
    return (name if isinstance(name, str) else type(function).__qualname__).rpartition("<locals>.")[2]
