"""What an object of the user's holds, looked up without asking it: a property, a proxy or a mock may do anything, or answer everything."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodType
from typing import Any, Final

# Kept by the interpreter or a library in C, and read from there by no code of the user's.
_SLOTS: Final = (GetSetDescriptorType, MemberDescriptorType)
# Called themselves; all else is called by its class.
_FUNCTIONS: Final = (FunctionType, BuiltinFunctionType, type)
_DEEPEST: Final = 8
_NONE: Final[Mapping[str, Any]] = {}


def held_by(thing: Any, name: str) -> Any:
    """The attribute, as it stands in the object, its slots or its class; None where it has none, or would compute it.

    As `inspect.getattr_static` finds it, which takes five times as long: loops may make an iterator, which is described, in each step.
    """
    held = in_class(type(thing), name)
    kind = type(held)
    if kind in _SLOTS:
        try:
            return held.__get__(thing, type(thing))
        except AttributeError:
            return None
    if kind is FunctionType or in_class(kind, "__get__") is None:
        return own_attributes(thing).get(name, held)
    # What is computed may be kept in the object's own attributes, unless a property or the like stands before these.
    return None if in_class(kind, "__set__") is not None else own_attributes(thing).get(name)


def in_class(kind: type, name: str) -> Any:
    """An attribute as it stands in a class or its bases; None where in none."""
    for base in kind.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return None


def own_attributes(thing: Any) -> Mapping[str, Any]:
    """The attributes of the object itself."""
    held = in_class(type(thing), "__dict__")
    return held.__get__(thing) if type(held) in _SLOTS else _NONE


def called_in(thing: Any) -> Any:
    """The function that runs where a method, a partial or an object is called; the thing itself where none is known."""
    for _ in range(_DEEPEST):
        kind = type(thing)
        if issubclass(kind, functools.partial):
            thing = thing.func
        elif kind is MethodType:
            thing = thing.__func__
        elif issubclass(kind, _FUNCTIONS) or type(held_by(thing, "__qualname__")) is str:
            break
        elif type(call := in_class(kind, "__call__")) is FunctionType:
            thing = call
        else:
            break
    return thing


def innermost(function: Any) -> Any:
    """The function that runs in the end where this one is called: within methods, partials, and what decorators have put around it, as
    `__wrapped__` tells.
    """
    for _ in range(_DEEPEST):
        called = called_in(function)
        inner = held_by(called, "__wrapped__")
        if inner is None:
            return called
        function = inner
    return function


def code_of(function: Any) -> CodeType | None:
    """The code of a function in Python; None of all else."""
    return function.__code__ if type(function) is FunctionType else None


def name_of(thing: Any) -> str:
    """Module and qualified name of a function or method, or of an object's class."""
    named = _named(thing)
    module = held_by(named, "__module__")
    return f"{module}.{qualified_name(thing)}" if type(module) is str else qualified_name(thing)


def qualified_name(thing: Any) -> str:
    """That without its module."""
    return str(held_by(_named(thing), "__qualname__"))


def _named(thing: Any) -> Any:
    thing = thing.__func__ if type(thing) is MethodType else thing
    return thing if type(held_by(thing, "__qualname__")) is str else type(thing)
