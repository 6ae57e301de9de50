"""Times functions that write checkpoints."""

from __future__ import annotations

import functools
import io
import os
import sys
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


def timed_save(recorder: Recorder, original: Any, name: str, *, position: int, keyword: str) -> Any:
    """`original`, recorded as a checkpoint write; its target is the argument at `position`, or named `keyword`."""
    event, fault, local = recorder.event, recorder.fault, recorder.local

    @functools.wraps(original)
    def save(*args: Any, **kwargs: Any) -> Any:
        me = local.me
        if me.saving:
            return original(*args, **kwargs)
        target = argument(args, kwargs, position, keyword)
        begin, flags = _position(target), FAILED
        me.saving = True
        t0 = now()
        try:
            result = original(*args, **kwargs)
            flags = 0
            return result
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        finally:
            t1 = now()
            me.saving = False
            try:
                if recorder.live[0]:
                    where = _users_line()
                    line = 0 if where is None else recorder.text_id(where)
                    written = _UNKNOWN if flags else _written(target, begin)
                    event(SAVE, t0, t1, written, recorder.text_id(name), line, flags, int(where is not None))
            except Exception as error:  # the border: counted, and never raised into the training
                fault(error)

    return save


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
            return os.stat(target).st_size
        except OSError:
            return _UNKNOWN
    end = _position(target)
    return _UNKNOWN if begin < 0 or end < begin else end - begin
