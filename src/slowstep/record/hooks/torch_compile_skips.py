"""Slowstep's own functions are none of the script's: torch.compile leaves them as they are where they run beside what it compiles.

A garbage collection in the middle of a compiled model calls ours; so does a backward or an update in a step that is compiled as a whole.
Without this each would be compiled, and again whenever one of their values is another.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from slowstep.record.hook import Hook, Undo, find

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_MODULE = "torch._dynamo.eval_frame"
_OURS = "slowstep.record"
# Calls of models lead into what is compiled: it goes through this one, and is not to end there.
_LED_THROUGH = "slowstep.record.hooks.torch_module"


def install(recorder: Recorder) -> Undo:
    """Mark our code, which bears it with no effect on anybody else's. Raises Unfit where this version of torch has no such mark."""
    skip = find(sys.modules[_MODULE], "skip_code")
    for name, module in list(sys.modules.items()):
        if name.startswith(_OURS) and name != _LED_THROUGH:
            for code in _codes(module):
                skip(code)
    return lambda: None


def _codes(module: ModuleType) -> Iterator[CodeType]:
    """The code of a module's functions and methods, and of those that they make."""
    for value in list(vars(module).values()):
        members = list(vars(value).values()) if isinstance(value, type) else [value]
        for member in members:
            if getattr(member, "__module__", module.__name__) == module.__name__:
                yield from _within(_code_of(member))


def _code_of(member: Any) -> CodeType | None:
    function = getattr(member, "fget", None) or getattr(member, "__func__", member)
    return function.__code__ if isinstance(function, FunctionType) else None


def _within(code: CodeType | None) -> Iterator[CodeType]:
    if code is None:
        return
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _within(constant)


HOOK = Hook(name="torch_compile_skips", module=_MODULE, install=install)
