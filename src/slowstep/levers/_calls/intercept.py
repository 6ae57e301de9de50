"""Calls of a function handled by somebody else for a while, by whatever name it is called, and undone without a trace.

A Python function gets another `__code__`, and the one who handles its calls as the default of a parameter: all that hold the function
(modules that have imported its name, classes, lists of transforms, partials, running frames) hold it still, and nothing has to be searched
for. A function without code, a built-in one, is replaced in every module, list and dictionary that holds it; tuples and local variables
are out of reach, and after `gc.freeze()` whatever nothing but local variables leads to.

Calls that slowstep makes of a library's function for itself reach the function, whoever handles the others.
"""

from __future__ import annotations

import functools
import sys
from types import CodeType, FrameType, FunctionType
from typing import Any

from slowstep.levers._calls.handing import HANDLER, Call, Function, Handler, but_for_ours, going_through, handing, handing_over
from slowstep.levers._calls.own_calls import may_be_ours
from slowstep.record.patch import Undo


class _Calls:
    """The calls of one function: handlers, of which the last one is asked first."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.handlers: list[Handler] = []
        self.code: CodeType | None = getattr(function, "__code__", None)
        self._defaults: dict[str, Any] | None = getattr(function, "__kwdefaults__", None)
        self._original: Call = twin(function) if isinstance(function, FunctionType) else function.original

    def put(self) -> None:
        """Make the function's calls go to the handlers as they are now; without any the function is as it was."""
        function = self.function
        if isinstance(function, FunctionType):
            assert self.code is not None
            # In this order: another thread may call it at any moment, and the own code takes no notice of one default more.
            if self.handlers:
                function.__kwdefaults__ = {**(self._defaults or {}), HANDLER: self._top()}
                function.__code__ = handing(len(self.code.co_freevars)).replace(co_name=self.code.co_name)
            else:
                function.__code__ = self.code
                function.__kwdefaults__ = self._defaults
        elif self.handlers:
            function.replace(handing_over(self._top()))
        else:
            function.restore()

    def _top(self) -> Call:
        call = self._original
        for handler in self.handlers[:-1]:
            call = going_through(handler, call)
        top = functools.partial(self.handlers[-1], call)
        return but_for_ours(top, self.function, self._original) if may_be_ours(self.function) else top


_calls: dict[int, _Calls] = {}


def intercept(function: Function, handler: Handler) -> Undo:
    """Have a handler asked at each call of a function, before those that are asked already. Undone in any order."""
    key = id(function)
    calls = _calls.get(key)
    if calls is None:
        calls = _calls[key] = _Calls(function)
    calls.handlers.append(handler)
    calls.put()

    def undo() -> None:
        if handler in calls.handlers:
            calls.handlers.remove(handler)
            calls.put()
            if not calls.handlers:
                _calls.pop(key, None)

    return undo


def release_all() -> None:
    """Leave all functions as they were: in a forked child, whose levers nobody would switch off."""
    for calls in list(_calls.values()):
        calls.handlers.clear()
        calls.put()
    _calls.clear()


def twin(function: FunctionType) -> FunctionType:
    """A second function of the same code, globals, defaults and closure, which stays as it is."""
    made = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    # Not the same qualified name: it is no other function of the script's to be found by it.
    made.__qualname__, made.__module__ = f"{function.__qualname__} as it was", function.__module__
    made.__dict__.update(function.__dict__)
    return made


def is_running(function: FunctionType) -> bool:
    """Whether the calling thread is inside the function: a change of its code would not reach this call."""
    calls = _calls.get(id(function))
    code = function.__code__ if calls is None else calls.code
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is code:
            return True
        frame = frame.f_back
    return False
