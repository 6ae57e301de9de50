"""What torch.compile takes while the training runs: at its first call, and again for other shapes. It tells of each compilation itself.

And slowstep's own functions are none of the script's: torch.compile leaves them as they are where they run beside what it compiles.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, Unfit, find
from slowstep.record.recorder import now
from slowstep.record.steps.named_spans import Label, NamedSpans

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_MODULE = "torch._dynamo.callback"
# What its spans are called in recordings; outside/words.py says what kind of part that is.
AT_WORK = "torch.compile at work"


def install(recorder: Recorder) -> Undo:
    """Have it told. Raises Unfit where this version of torch does not tell."""
    handler = find(sys.modules[_MODULE], "callback_handler")
    starts, ends = find(handler, "start_callbacks"), find(handler, "end_callbacks")
    if not isinstance(starts, list) or not isinstance(ends, list):
        raise Unfit("torch._dynamo keeps no list of callbacks")
    spans, label = NamedSpans(recorder), Label(AT_WORK, stage="compute")
    begun_ns = [0]

    def begins(_: Any) -> None:
        begun_ns[0] = now()

    def ends_now(_: Any) -> None:
        # A process in which nothing trains gets no files because it compiles.
        if begun_ns[0] and recorder.page.recording and recorder.watched:
            spans.write(label, begun_ns[0])
        begun_ns[0] = 0

    starts.append(begins)
    ends.append(ends_now)

    def undo() -> None:
        # The script may have cleared the lists.
        with suppress(ValueError):
            starts.remove(begins)
        with suppress(ValueError):
            ends.remove(ends_now)

    return undo


_FRAMES = "torch._dynamo.eval_frame"
_OURS = ("slowstep.record", "slowstep.frameworks")
# Calls of models lead into what is compiled: it goes through this one, and is not to end there.
_LED_THROUGH = "slowstep.frameworks.torch.inside.module"


def leave_ours_alone(recorder: Recorder) -> Undo:
    """Mark our code, which bears it with no effect on anybody else's. Raises Unfit where this version of torch has no such mark."""
    skip = find(sys.modules[_FRAMES], "skip_code")
    for name, module in sys.modules.copy().items():
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


HOOKS = (
    Hook(name="torch_compile", module=_MODULE, install=install),
    Hook(name="torch_compile_skips", module=_FRAMES, install=leave_ours_alone),
)
