"""The levers that change what calls of one function do, here and in loader workers: `stub` and `swap`."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from slowstep.levers._calls.answers import CallAnswer, LastResult, OtherFunction
from slowstep.levers._calls.handing import Function
from slowstep.levers._calls.intercept import intercept, is_running
from slowstep.levers._calls.targets import find_calls, find_functions, is_in_a_graph, module_and_function
from slowstep.levers._calls.turns import CallTurns
from slowstep.record.experiment.lever import LeverSpec, NotApplicable
from slowstep.record.framework import needed_modules
from slowstep.record.patch import Undo, all_of


class Redirected:
    """The functions that a specification names, and what answers their calls while `switch` has put it in place."""

    def __init__(self, functions: list[Function], answer: CallAnswer) -> None:
        self.answer = answer
        self._functions = functions
        self._undos: list[Undo] = []

    def switch(self, *, watching: bool, on: bool) -> None:
        """Watch the calls, answer them, or (neither) leave the functions as they were."""
        if not (watching or on):
            all_of(self._undos)()
        elif not self._undos:
            for function in self._functions:
                self._undos.append(intercept(function, self.answer.handle))
        self.answer.switch(on=on)


def named(spec: LeverSpec) -> tuple[str, str | None]:
    """The function to be answered and, for `swap`, the one that answers. Raises ValueError for a text of another form, and for one
    function that is named twice."""
    first, equals, second = (spec.value or "").partition("=")
    module_and_function(first)
    if spec.name == "stub":
        if equals:
            raise ValueError(f"it takes one MODULE:FUNCTION, not {spec.value!r}")
        return first, None
    if not second:
        raise ValueError("the second function is missing: it takes MODULE:F=MODULE:G")
    module_and_function(second)
    if first == second:
        raise ValueError(f"{spec.value!r} names one function twice")
    return first, second


def redirected(spec: LeverSpec, needed: Callable[[], Any] = tuple, turns: Callable[[int], CallTurns] = CallTurns) -> Redirected:
    """What `stub=MODULE:FUNCTION` or `swap=MODULE:F=MODULE:G` asks for. Raises ValueError for a text of another form, NotApplicable
    where the functions are not there, or are of a kind whose calls cannot be replaced. `turns` are those of `every`."""
    first, second = named(spec)
    functions = find_functions(first)
    for function in functions:
        _check(function, first)
    if second is None:
        return Redirected(functions, LastResult(turns(spec.every), needed))
    other = find_calls(second)[0]
    if other in find_calls(first):
        raise ValueError(f"{spec.value!r} names one function twice")
    return Redirected(functions, OtherFunction(other))


def _check(function: Function, text: str) -> None:
    if is_in_a_graph(function):
        raise NotApplicable(f"{text} is part of a graph that was compiled")
    if not isinstance(function, FunctionType):
        return
    if (function.__module__ or "").startswith(needed_modules()):
        raise NotApplicable(f"the training does not go on without {text}")
    if is_running(function):
        raise NotApplicable(f"a step of the training ends inside {text}: name a function that it calls")
