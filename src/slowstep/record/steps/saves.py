"""Times functions that write checkpoints, and those that write anything where it is one."""

from __future__ import annotations

import functools
import io
import os
import stat
import sys
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.patch import argument
from slowstep.record.recorder import now
from slowstep.record.timing.line_counts import users_frame
from slowstep.record.timing.tracebacks import hide_own_frames
from slowstep.record.writing.format import FAILED, SAVE

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_UNKNOWN: Final = -1
# Only these are asked where they stand: asking a file object of the script's own could do anything.
_PLAIN_FILES: Final = (io.BytesIO, io.BufferedWriter, io.BufferedRandom, io.FileIO)
# What writes anything is looked at no sooner: small things are written often, and are no model.
SHORTEST_NS: Final = 200_000

# Whether what a call was given, by the line of its caller, is a training's state.
Holds = Callable[[tuple[Any, ...], dict[str, Any], tuple[CodeType, int]], bool]


def _always(_: Any) -> bool:
    return True


def timed_save(
    recorder: Recorder,
    original: Any,
    name: str,
    *,
    position: int,
    keyword: str,
    holds: Holds | None = None,
    is_written: Callable[[Any], bool] = _always,
) -> Any:
    """`original`, recorded as a checkpoint write; its target is the argument at `position`, or named `keyword`.

    One that writes anything is recorded where what it was given `holds` the state. By its result `is_written` says whether it wrote
    anything, where it decides that itself.
    """
    event, fault, local = recorder.event, recorder.fault, recorder.local

    @functools.wraps(original)
    def save(*args: Any, **kwargs: Any) -> Any:
        me = local.me
        if me.saving:
            return original(*args, **kwargs)
        target = argument(args, kwargs, position, keyword)
        begin, flags, writes = _position(target), FAILED, True
        me.saving = True
        t0 = now()
        try:
            result = original(*args, **kwargs)
            flags, writes = 0, is_written(result)
            return result
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        finally:
            t1 = now()
            me.saving = False
            try:
                writes = writes and recorder.live[0]
                if writes and (holds is None or _is_state(recorder, holds, args, kwargs, t1 - t0)):
                    where = _users_line()
                    line = 0 if where is None else recorder.text_id(where)
                    written = _UNKNOWN if flags else _written(target, begin)
                    event(SAVE, t0, t1, written, recorder.text_id(name), line, flags, int(where is not None))
            except Exception as error:  # the border: counted, and never raised into the training
                fault(error)

    return save if hasattr(type(original), "__get__") else _unbound(save, original)


def _unbound(call: Any, original: Any) -> Any:
    """In the place of a function that binds to no object, as built-in ones do not: in a class it stays what it is.

    It is pickled by its name, which is the original's again when the recording is over.
    """
    name = f"{original.__module__}:{original.__qualname__}"

    def reduced(_: Any) -> Any:
        from pkgutil import resolve_name

        return resolve_name, (name,)

    kind = type(type(original).__name__, (), {"__call__": staticmethod(call), "__reduce__": reduced})
    return functools.update_wrapper(kind(), original)


def _is_state(recorder: Recorder, holds: Holds, args: tuple[Any, ...], kwargs: dict[str, Any], took_ns: int) -> bool:
    if took_ns < SHORTEST_NS:
        return False
    caller, began_ns = sys._getframe(2), now()
    try:
        return holds(args, kwargs, (caller.f_code, caller.f_lineno))
    finally:
        recorder.spent_ns += now() - began_ns


def _users_line() -> str | None:
    """File and line of the innermost frame of the user's: a framework may have called for it."""
    frame = users_frame(sys._getframe(2))
    return None if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _position(target: Any) -> int:
    if type(target) in _PLAIN_FILES:
        try:
            return int(target.tell())
        except (OSError, ValueError):
            pass
    return _UNKNOWN


def _written(target: Any, begin: int) -> int:
    """Bytes that were written to a path or a plain file; -1 where that is not known."""
    if isinstance(target, (str, bytes, os.PathLike)):
        try:
            found = os.stat(target)
            # Of a folder of files that is the size of the list of their names.
            return _UNKNOWN if stat.S_ISDIR(found.st_mode) else found.st_size
        except OSError:
            return _UNKNOWN
    end = _position(target)
    return _UNKNOWN if begin < 0 or end < begin else end - begin
