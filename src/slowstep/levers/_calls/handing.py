"""What stands in a function's place and hands its calls over. Nothing of this file calls anything of its own accord."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, Final

from slowstep.levers._calls.holders import Holders
from slowstep.levers._calls.own_calls import LAYER, OTHER, caller, is_ours, kinds, names_of

Call = Callable[..., Any]
# Called in a function's place, with what goes on to the function itself, positional and named arguments.
Handler = Callable[[Call, tuple[Any, ...], dict[str, Any]], Any]
Function = FunctionType | Holders

# Not a constant of the code: torch.compile, where it meets one that is no literal, raises.
HANDLER: Final = "_slowstep_handler"
kinds[__file__] = LAYER


def going_through(handler: Handler, call: Call) -> Call:
    """A call that a handler is asked at."""

    def handled(*args: Any, **kwargs: Any) -> Any:
        return handler(call, args, kwargs)

    return handled


def but_for_ours(top: Call, function: Function, original: Call) -> Call:
    """Like `top`, which is given arguments and named ones, but for the calls that slowstep makes for itself: these reach the original."""
    names = names_of(function)

    def asked(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # Asked here first: the training's own code is the likely caller, and what this takes is a part of the lever's effect.
        if kinds[caller(2).f_code.co_filename] == OTHER or not is_ours(caller(2), function, names):
            return top(args, kwargs)
        return original(*args, **kwargs)

    return asked


def handing_over(top: Call) -> Call:
    """A function that gives its arguments to `top`."""

    def handed_over(*args: Any, **kwargs: Any) -> Any:
        return top(args, kwargs)

    return handed_over


@functools.cache
def handing(free: int) -> CodeType:
    """Code that hands all arguments over, for a function that is a closure of so many variables: it must stay one."""
    names = [f"free_{number}" for number in range(free)]
    source = (
        f"def closure({', '.join(names)}):\n"
        f" def call(*args, {HANDLER}, **kwargs):\n"
        f"  return {HANDLER}(args, kwargs)\n"
        f"  ({''.join(f'{name}, ' for name in names)})\n"
        " return call\n"
    )
    made: dict[str, Any] = {}
    exec(compile(source, __file__, "exec"), made)
    code: CodeType = made["closure"](*names).__code__
    return code
