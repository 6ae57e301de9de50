"""What an object of the user's holds, looked up without asking it: a property, a proxy or a mock may do anything, or answer everything."""

from __future__ import annotations

import functools
import inspect
from types import BuiltinFunctionType, CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodType
from typing import Any, Final

# Kept by the interpreter or a library in C, and read from there by no code of the user's.
_SLOTS: Final = (GetSetDescriptorType, MemberDescriptorType)
# Called themselves; all else is called by its class.
_FUNCTIONS: Final = (FunctionType, BuiltinFunctionType, type)
_DEEPEST: Final = 8


def held_by(thing: Any, name: str) -> Any:
    """The attribute, as it stands in the object, its slots or its class; None where it has none, or would compute it."""
    found = inspect.getattr_static(thing, name, None)
    kind = type(found)
    if kind is FunctionType:
        return found
    if kind in _SLOTS:
        try:
            return found.__get__(thing, type(thing))
        except AttributeError:
            return None
    return None if _computes(kind) and inspect.getattr_static(type(thing), name, None) is found else found


def _computes(kind: type) -> bool:
    """Whether what a class holds of this kind is asked for the attribute of each instance."""
    return any("__get__" in vars(base) for base in kind.__mro__)


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
        elif type(call := held_by(kind, "__call__")) is FunctionType:
            thing = call
        else:
            break
    return thing


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
