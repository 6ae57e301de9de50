"""The parts of a page, of which one that fails costs no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Concatenate, Final, ParamSpec

from slowstep.faults import Attempts, Fault
from slowstep.report.canvas import Canvas
from slowstep.report.fault_log import describe

P = ParamSpec("P")
_RAISES: Final = ContextVar("_RAISES", default=False)


def draw_part(canvas: Canvas, draw: Callable[Concatenate[Canvas, P], None], *args: P.args, **kwargs: P.kwargs) -> None:
    """Draw a part of a page; where that fails, a sentence about it stands in its place."""
    before = len(canvas.lines)
    fault = Attempts().outcome(draw.__name__, draw, canvas, *args, **kwargs)
    if isinstance(fault, Fault):
        if _RAISES.get():
            raise fault.error
        del canvas.lines[before:]
        canvas.prose(describe(fault.error, "this part of the report"), label="Error", label_style="bold red", hang=2)


@contextmanager
def raising() -> Iterator[None]:
    """What is drawn inside was read from a file: what fails in it is raised, for the file may be why."""
    token = _RAISES.set(True)
    try:
        yield
    finally:
        _RAISES.reset(token)
