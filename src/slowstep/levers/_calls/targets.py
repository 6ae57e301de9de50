"""Finds the functions that `MODULE:FUNCTION` names, in what the script has imported."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any, Final

from slowstep.levers._calls.handing import Function
from slowstep.levers._calls.holders import Holders
from slowstep.levers._calls.wrappers import Call, as_called, kept_alike, unwrapped
from slowstep.record.experiment.lever import NotApplicable
from slowstep.record.framework import is_compiled
from slowstep.record.living import TooManyObjects, are_set_aside, objects, one_search

_MAIN: Final = ("__main__", "__mp_main__")
# Functions that are not Python's, by the name of their type: torch and numpy bring some of their own.
_BUILT_IN: Final = frozenset(
    {
        *("builtin_function_or_method", "method_descriptor", "wrapper_descriptor", "cython_function_or_method", "nb_func"),
        *("ufunc", "_ArrayFunctionDispatcher"),
    }
)
_NOT_PLAIN: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
_LOCAL: Final = ".<locals>."
_SET_ASIDE: Final = ", or the script's gc.freeze() keeps it from being found: define it outside a function, or leave that call out"


def module_and_function(text: str) -> tuple[str, str]:
    """The two halves of `MODULE:FUNCTION`. Raises ValueError for a text of another form."""
    name, colon, path = text.partition(":")
    if not (name and colon and path) or path != path.strip():
        raise ValueError(f"{text!r} is no MODULE:FUNCTION, such as train:plot or train:Net.forward")
    return name, path


def find_functions(text: str) -> list[Function]:
    """The functions that `MODULE:FUNCTION` or `MODULE:Class.method` names: one, or one per copy of the module where it was loaded twice.

    Raises ValueError for a text of another form, NotApplicable where there is no such thing, and where its calls cannot be replaced.
    """
    try:
        with one_search():
            return _found(text)
    except TooManyObjects as error:
        raise NotApplicable(str(error)) from None


def _found(text: str) -> list[Function]:
    name, path = module_and_function(text)
    modules = list(_modules(name))
    if not modules:
        raise NotApplicable(f"no module {name} has been imported by the training")
    found = list({_identity(function): function for module in modules for function in _in_module(module, path, text)}.values())
    if not found:
        raise NotApplicable(f"{name} has no {path}{_SET_ASIDE if _LOCAL in path and are_set_aside() else ''}")
    return found


def find_calls(text: str) -> list[Call]:
    """What is called by the name `MODULE:FUNCTION`: where it keeps what it returns, the cache and not the function below. Raises as
    `find_functions`."""
    find_functions(text)
    name, path = module_and_function(text)
    return [as_called(held) for module in _modules(name) for _, _, held in _held(module, path)]


def known_function(module: str, path: str) -> Function | None:
    """The function of a library that is imported already; None where there is none, or another thing than a function that may be
    replaced. Raises TooManyObjects."""
    try:
        found = next(iter(_in_module(sys.modules[module], path, path)), None) if module in sys.modules else None
    except NotApplicable:
        return None
    return None if found is None or is_in_a_graph(found) else found


def is_in_a_graph(function: Function) -> bool:
    """Whether a compiled graph would have to be compiled anew if the function were replaced."""
    return is_compiled(function.original if isinstance(function, Holders) else function)


def _modules(name: str) -> Iterator[ModuleType]:
    """The module of a name. A script's is `__main__` as well, which is called by its file's name here, or by the name given to `-m`."""
    mains = [module for main in _MAIN if (module := sys.modules.get(main)) is not None and name in (main, *_names(module))]
    module = None if name in _MAIN else sys.modules.get(name)
    # `__mp_main__` is the same module as `__main__`, or in a spawned worker the script's, which is loaded by that name.
    yield from {id(each): each for each in (*mains, module) if each is not None}.values()


def _identity(function: Function) -> object:
    """Equal for what is one function, though two copies of a module hold it: its calls are to be handled once."""
    return id(function) if isinstance(function, FunctionType) else function.identity


def _names(module: ModuleType) -> list[str]:
    spec, file = getattr(module, "__spec__", None), getattr(module, "__file__", None)
    names = [] if spec is None else [spec.name, spec.name.removesuffix(".__main__")]
    return names if not file else [*names, os.path.splitext(os.path.basename(file))[0]]


def _in_module(module: ModuleType, path: str, text: str) -> Iterator[Function]:
    for owner, attribute, held in _held(module, path):
        yield _function(owner, attribute, held, text)


def _held(module: ModuleType, path: str) -> Iterator[tuple[Any, str, Any]]:
    """What a path leads to in a module, as it is kept there, with who keeps it and by which attribute."""
    *parents, attribute = path.split(".")
    if _LOCAL in path:
        yield from ((module, attribute, found) for found in _local_functions(module, path))
        return
    owner: Any = module
    for parent in parents:
        owner = _attribute(owner, parent)
    if (held := _attribute(owner, attribute)) is not None:
        yield owner, attribute, held


def _local_functions(module: ModuleType, path: str) -> Iterator[FunctionType]:
    """Functions that were defined inside another one: nobody but the interpreter knows all that there are."""
    for found in objects():
        if type(found) is FunctionType and found.__qualname__ == path and found.__globals__ is vars(module):
            yield found


def _attribute(owner: Any, name: str) -> Any:
    """An attribute as it is kept: a class's methods and properties are not bound by looking at them."""
    if isinstance(owner, type):
        # Not what its metaclass has: `type.__call__` is no method of a class.
        return next((vars(kind)[name] for kind in owner.__mro__ if name in vars(kind)), None)
    return None if owner is None else inspect.getattr_static(owner, name, None)


def _function(owner: Any, attribute: str, held: Any, text: str) -> Function:
    function = unwrapped(held)
    if isinstance(function, FunctionType):
        _plain(function, text)
        is_inherited = isinstance(owner, type) and attribute not in vars(owner)
        return _inherited(owner, attribute, held, function, text) if is_inherited else function
    if type(held).__name__ in _BUILT_IN:
        try:
            return Holders(owner, attribute, held)
        except TypeError as error:
            raise NotApplicable(f"{text} cannot be replaced: {error}") from None
    raise NotApplicable(_what_it_is(held, text))


def _inherited(owner: type, attribute: str, held: Any, function: FunctionType, text: str) -> Holders:
    """Another class's, which others inherit too: it is replaced in the one that is named."""
    if (kept := kept_alike(held, owner, attribute)) is None:
        has_it = next(kind for kind in owner.__mro__ if attribute in vars(kind))
        raise NotApplicable(f"{text} is inherited: name that of {has_it.__module__}:{has_it.__qualname__}")
    return Holders(owner, attribute, function, kept)


def _plain(function: FunctionType, text: str) -> FunctionType:
    made = inspect.unwrap(function)
    flags = function.__code__.co_flags | (made.__code__.co_flags if isinstance(made, FunctionType) else 0)
    if flags & _NOT_PLAIN:
        why = "its work is done bit by bit, not when it is called"
        raise NotApplicable(f"{text} is a generator or a coroutine: {why}; name a function that it calls")
    return function


def _what_it_is(held: Any, text: str) -> str:
    if isinstance(held, ModuleType):
        return f"{text} is a module: name a function of it"
    if isinstance(held, type):
        name = f"{text}.__call__"
        return f"{text} is a class: name a method of it" + (f", such as {name}" if _is_named(_own_call(held), name) else "")
    kind = f"{type(held).__module__}:{type(held).__qualname__}"
    return f"{text} is an object of {kind}: {_in_its_place(held, kind)}"


def _in_its_place(held: Any, kind: str) -> str:
    """Which function may be named in place of an object."""
    if _is_named(_own_call(type(held)), name := f"{kind}.__call__"):
        return f"name a function, such as {name}"
    if isinstance(held, (functools.partial, functools.partialmethod)):
        called = unwrapped(held.func)
        name = f"{getattr(called, '__module__', None)}:{getattr(called, '__qualname__', None)}"
        if _is_named(called, name):
            return f"name the function that it calls, {name}"
    # What is written in C calls others that are, too.
    return "name a function that it calls, or one that calls it" if callable(held) or hasattr(type(held), "__get__") else "name a function"


def _own_call(kind: type) -> Any:
    return unwrapped(_attribute(kind, "__call__"))


def _is_named(function: Any, text: str) -> bool:
    """Whether it is a Python function that is found by that name, and its calls may be replaced."""
    if not isinstance(function, FunctionType):
        return False
    name, path = module_and_function(text)
    found = [each for module in _modules(name) for each in _held(module, path) if unwrapped(each[2]) is function]
    try:
        return [_function(*each, text) for each in found] != []
    except NotApplicable:
        return False
