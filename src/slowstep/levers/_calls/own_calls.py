"""Tells the calls of a library's functions that slowstep makes for itself from those of the training: only these are a lever's affair.

Slowstep runs in the training's process and its workers: its notes are JSON, its sampler sleeps. Who calls is seen by the frames of the
calling thread. What lies between is the standard library's own, which belongs to whoever called it.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from types import FrameType, FunctionType
from typing import Any, Final

from slowstep.levers._calls.holders import Holders
from slowstep.record.framework import training_modules
from slowstep.record.timing.tracebacks import PACKAGE

_STANDARD: Final = os.path.dirname(os.__file__) + os.sep
_NOT_STANDARD: Final = (_STANDARD + "site-packages" + os.sep, _STANDARD + "dist-packages" + os.sep)
_FROZEN: Final = "<frozen "
# Whose code it is, by its file. LAYER stands in a function's place and hands its calls over: neither who called nor what was called.
SLOWSTEP, LIBRARY, OTHER, LAYER = range(4)
# Hooks and levers name by this what they replace and call in the training's place.
_HANDED_ON: Final = "original"
# Held by this module, where no lever replaces it: whatever function is answered, nothing of it may be called in here.
caller: Final = sys._getframe


class _Kinds(dict[str, int]):
    def __missing__(self, file: str) -> int:
        self[file] = kind = _kind(file)
        return kind


kinds: Final = _Kinds()


def may_be_ours(function: FunctionType | Holders) -> bool:
    """Whether slowstep might call the function for itself, going by the library that it is of."""
    if isinstance(function, FunctionType):
        module: Any = function.__globals__.get("__name__")
    else:
        module = getattr(function.original, "__module__", None) or function.owner_name
    return str(module).partition(".")[0] in _called()


@cache
def _called() -> frozenset[str]:
    """What slowstep calls for itself where it runs in a training. A function of anything else needs no look at who calls it."""
    return sys.stdlib_module_names | {"numpy", *(module.partition(".")[0] for module in training_modules())}


def names_of(function: FunctionType | Holders) -> frozenset[str]:
    """By what code that calls the function of its own accord names it."""
    if isinstance(function, FunctionType):
        return frozenset({function.__name__})
    return frozenset({function.attribute, str(getattr(function.original, "__name__", function.attribute))})


def is_ours(frame: FrameType | None, function: object, names: frozenset[str]) -> bool:
    """Whether slowstep makes the call for itself, by the frame that calls.

    Slowstep's code that does not name what it calls has it from elsewhere (the original below a hook, what a lever passes on), and calls
    it in the training's place.
    """
    inner: str | None = None
    while frame is not None:
        code = frame.f_code
        kind = kinds[code.co_filename]
        if kind == OTHER:
            return False
        if kind == SLOWSTEP:
            return _names(frame, function, names) if inner is None else inner in code.co_names or inner.startswith("__")
        if kind == LIBRARY:
            inner = code.co_name
        frame = frame.f_back
    return False


def _names(frame: FrameType, function: object, names: frozenset[str]) -> bool:
    code = frame.f_code
    if names.isdisjoint(code.co_names):
        return False
    if _HANDED_ON in code.co_freevars or _HANDED_ON in code.co_varnames:
        return frame.f_locals.get(_HANDED_ON) is not function
    return True


def _kind(file: str) -> int:
    if file.startswith(PACKAGE):
        return SLOWSTEP
    if file.startswith(_FROZEN) or (file.startswith(_STANDARD) and not file.startswith(_NOT_STANDARD)):
        return LIBRARY
    return OTHER
