"""What a function is kept in where it is not kept by itself: methods of a class, properties, caches, and hooks of ours."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, Final

from slowstep.record.timing.tracebacks import PACKAGE

Call = Callable[..., Any]
# `functools.cache` makes them, too. The class has no public name.
_Cache: Final = type(functools.lru_cache(lambda: None))


def unwrapped(held: Any) -> Any:
    """The function that does the work of what a name stands for: below a cache it is called where nothing is kept yet."""
    while isinstance(called := as_called(held), _Cache):
        held = called.__wrapped__
    return called


def as_called(held: Any) -> Any:
    """What is called in the end by who uses the name, caches and all. Hooks of ours are left out: they record what levers do."""
    while (inner := _inner(held)) is not None:
        held = inner
    return held


def _inner(held: Any) -> Any:
    if isinstance(held, property):
        return held.fget
    if isinstance(held, functools.cached_property):
        return held.func
    if isinstance(held, FunctionType):
        return getattr(held, "__wrapped__", None) if held.__code__.co_filename.startswith(PACKAGE) else None
    return held.__func__ if isinstance(held, (staticmethod, classmethod, MethodType)) else None


def kept_alike(held: Any, owner: type, attribute: str) -> Callable[[Call], Any] | None:
    """How a class is to keep another function in place of what it inherits by that name; None where it would be another thing then, as
    it would with a cache of its own."""
    if isinstance(held, FunctionType):
        return as_it_is
    if not isinstance(_inner(held), FunctionType):
        return None
    if isinstance(held, (staticmethod, classmethod)):
        return type(held)
    if isinstance(held, property):
        return held.getter
    if isinstance(held, functools.cached_property):
        return functools.partial(_kept_property, owner, attribute)
    return None


def as_it_is(call: Call) -> Call:
    """A method, as the statement `def` makes it."""
    return call


def _kept_property(owner: type, attribute: str, call: Call) -> Any:
    made = functools.cached_property(call)
    # Only the statement `class` does that.
    made.__set_name__(owner, attribute)
    return made
