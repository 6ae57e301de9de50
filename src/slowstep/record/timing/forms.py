"""How the types of what is in a batch tell what is asked of them: found once for each type, as batches are measured in every step.

No code of the user's is asked, by the rules of `batches`. A class that is changed after its first object was seen is taken as it was then.
"""

from __future__ import annotations

import weakref
from collections import UserDict
from collections.abc import Callable, Iterable
from types import GetSetDescriptorType, WrapperDescriptorType
from typing import Any, Final

from slowstep.record.attributes import called_in, code_of, held_by, in_class, innermost

Ask = Callable[[Any], Any]

# Types that some scripts make for each batch come and go: all are looked at anew then.
_MOST: Final = 256


class Form:
    """Of a type: `parts` of one that is made of Python's lists, tuples or dictionaries, and None of all else; `shape` and `nbytes` of an
    object, which may raise whatever a library does, None where it has none; a library's own `values`, of a mapping, and `item`, by its
    place: these too may raise, and are None of all else. The type is not kept alive.
    """

    __slots__ = ("item", "kind", "nbytes", "parts", "shape", "values")

    def __init__(self, kind: type) -> None:
        self.kind = weakref.ref(kind)
        self.parts = _parts(kind)
        self.shape, self.nbytes = (None if self.parts else _ask(kind, name) for name in ("shape", "nbytes"))
        self.values: Ask | None = _librarys(kind, "values") if in_class(kind, "keys") is not None else None
        self.item: Callable[[Any, int], Any] | None = _librarys(kind, "__getitem__")


# By the number of the type: a class's own hash may be the user's code.
_known: Final[dict[int, Form]] = {}


def form_of(thing: Any) -> Form:
    """That of an object's type."""
    kind = type(thing)
    form = _known.get(id(kind))
    return form if form is not None and form.kind() is kind else _look_at(kind)


def _look_at(kind: type) -> Form:
    if len(_known) >= _MOST:
        _known.clear()
    form = _known[id(kind)] = Form(kind)
    return form


def _parts(kind: type) -> Callable[[Any], Iterable[Any]] | None:
    if issubclass(kind, (list, tuple)):
        return list.__iter__ if issubclass(kind, list) else tuple.__iter__
    if issubclass(kind, UserDict):
        return _values_of_data
    return dict.values if issubclass(kind, dict) else None


def _values_of_data(batch: Any) -> Iterable[Any]:
    data = held_by(batch, "data")
    return dict.values(data) if issubclass(type(data), dict) else ()


def _librarys(kind: type, name: str) -> Any:
    """A method of a class, where no other code than a library's runs when it is called."""
    method = in_class(kind, name)
    return method if _is_of_a_library(method) else None


def _is_of_a_library(function: Any) -> bool:
    """Whether a function is an installed package's, or written in C, and so is what it is put around."""
    return _is_written_in_one(called_in(function)) and _is_written_in_one(innermost(function))


def _is_written_in_one(function: Any) -> bool:
    if (code := code_of(function)) is not None:
        return "-packages" in code.co_filename
    # A class runs its own code when it is called, and an object of the user's has a function of Python for it, or none that is known.
    return not issubclass(type(function), type) and type(in_class(type(function), "__call__")) is WrapperDescriptorType


def _ask(kind: type, name: str) -> Ask | None:
    held = in_class(kind, name)
    if type(held) is GetSetDescriptorType:
        return held.__get__
    if type(held) is property and _is_of_a_library(held.fget):
        return held.fget
    own = in_class(kind, "__dict__")
    if held is None and own is None:
        return None
    if held is None and type(own) is GetSetDescriptorType:
        # What `held_by` finds then, in a sixth of its time: 0.3 us and not 1.8, for each of a batch's samples.
        return lambda thing: dict.get(object.__getattribute__(thing, "__dict__"), name)
    return lambda thing: held_by(thing, name)
