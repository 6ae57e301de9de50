"""Methods of Keras' list of callbacks, put in the place of the own ones: they tell somebody of what the list is told."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from operator import index
from types import FrameType
from typing import Any

from slowstep.record.patch import argument
from slowstep.record.timing.tracebacks import hide_own_frames

Told = Callable[[Any, tuple[Any, ...], Mapping[str, Any]], None]


def batch_number(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """That of a batch, as callbacks are told it; 0 where a loop of the script's own tells something else."""
    if args and type(args[0]) is int:
        return args[0]
    try:
        return index(argument(args, kwargs, 0, "batch"))
    except TypeError:
        return 0


def told_after(original: Any, told: Callable[[Any, tuple[Any, ...], Mapping[str, Any], FrameType], None]) -> Any:
    """A method after which `told`, which raises nothing, is called with the list, its arguments and its caller's frame."""

    @functools.wraps(original)
    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        try:
            result = original(self, *args, **kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        own, caller = sys._getframe().f_code, sys._getframe(1)
        # One of these may stand around another.
        while caller.f_code is own and caller.f_back is not None:
            caller = caller.f_back
        told(self, args, kwargs, caller)
        return result

    return method


def told_before(original: Any, told: Told) -> Any:
    """A method before which `told`, which raises nothing, is called with the list and its arguments."""

    @functools.wraps(original)
    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        told(self, args, kwargs)
        try:
            return original(self, *args, **kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise

    return method
