"""How the types of what is in a batch tell what is asked of them: found once for each type, as batches are measured in every step.

No code of the user's is asked, by the rules of `batches`. A class that is changed after its first object was seen is taken as it was then.
"""

from __future__ import annotations

import weakref
from collections import UserDict
from collections.abc import Callable, Iterable
from types import FunctionType, GetSetDescriptorType
from typing import Any, Final

from slowstep.record.attributes import code_of, held_by

Ask = Callable[[Any], Any]

# Types that some scripts make for each batch come and go: all are looked at anew then.
_MOST: Final = 256


class Form:
    """Of a type: `parts` of one that is made of Python's lists, tuples or dictionaries, and None of all else; `shape` and `nbytes` of an
    object, which may raise whatever a library does, None where it has none; `maps` of a library's own mapping. The type is not kept alive.
    """

    __slots__ = ("kind", "maps", "nbytes", "parts", "shape")

    def __init__(self, kind: type) -> None:
        self.kind = weakref.ref(kind)
        self.parts = _parts(kind)
        self.shape, self.nbytes = (None if self.parts else _ask(kind, name) for name in ("shape", "nbytes"))
        self.maps = is_of_a_library(in_class(kind, "values")) and in_class(kind, "keys") is not None


# By the number of the type: a class's own hash may be the user's code.
_known: Final[dict[int, Form]] = {}


def form_of(thing: Any) -> Form:
    """That of an object's type."""
    kind = type(thing)
    form = _known.get(id(kind))
    return form if form is not None and form.kind() is kind else _look_at(kind)


def in_class(kind: type, name: str) -> Any:
    """An attribute as it stands in a class or its bases; None where in none."""
    for base in kind.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return None


def is_of_a_library(function: Any) -> bool:
    """Whether a function is an installed package's, or written in C."""
    code = code_of(function)
    return "-packages" in code.co_filename if code is not None else function is not None and type(function) is not FunctionType


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


def _ask(kind: type, name: str) -> Ask | None:
    held = in_class(kind, name)
    if type(held) is GetSetDescriptorType:
        return held.__get__
    if type(held) is property and is_of_a_library(held.fget):
        return held.fget
    own = in_class(kind, "__dict__")
    if held is None and own is None:
        return None
    if held is None and type(own) is GetSetDescriptorType:
        return lambda thing: dict.get(object.__getattribute__(thing, "__dict__"), name)
    return lambda thing: held_by(thing, name)
