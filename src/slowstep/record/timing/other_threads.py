"""The frames of other threads, taken so that none of them dies meanwhile.

Before Python 3.12 any allocation may start a garbage collection, also that of the object that stands for a running frame. A collection runs
finalizers, and frees tensors: both let other threads run. The frame that is being made an object of may then have returned, and the object
points to memory that is another frame's by now. Reading it ends the training (a fault seen in one of twenty runs of a busy machine).
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Final, TypeVar

T = TypeVar("T")

_COLLECTS_AT_ALLOCATIONS: Final = sys.version_info[:2] < (3, 12)


def without_collecting(work: Callable[[], T]) -> T:
    """What `work` returns, done while no collection can begin. It is to be short: other threads do not collect meanwhile either."""
    if not (_COLLECTS_AT_ALLOCATIONS and gc.isenabled()):
        return work()
    gc.disable()
    try:
        return work()
    finally:
        gc.enable()


def look_at(threads: Iterable[int], read: Callable[[FrameType], T]) -> dict[int, T]:
    """What `read` says of the innermost frame of each of these threads (idents) that still runs. It is to be short, and to keep no frame.

    No frame outlives this: one that does keeps all that the script's functions hold, tensors and a loader's workers among them.
    """

    def look() -> dict[int, T]:
        frames = sys._current_frames()
        # This very frame, in which all others are: a circle that only a collection would end.
        del frames[threading.get_ident()]
        found = {}
        for thread in threads:
            if thread in frames:
                found[thread] = read(frames[thread])
        return found

    return without_collecting(look)


def running(threads: Iterable[int]) -> set[int]:
    """Those of these threads (idents) that run Python code now; of the calling thread nothing is said."""
    return set(look_at(threads, lambda frame: None))


class CoreUse:
    """Whether a thread of this process uses a core, read from a file that stays open for as long as the thread lives.

    Reading lets go of the GIL: a thread that waits for it goes on, and is seen to use a core.
    """

    __slots__ = ("_handle",)

    def __init__(self, thread: int) -> None:
        """`thread` is a native id."""
        try:
            self._handle = os.open(f"/proc/self/task/{thread}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._handle = -1

    def now(self) -> bool | None:
        """Whether it runs on a core, or waits for one; None where the system does not say."""
        if self._handle < 0:
            return None
        try:
            # The state follows the thread's name, which may hold anything.
            return os.pread(self._handle, 128, 0).rpartition(b") ")[2][:1] == b"R"
        except OSError:
            return None

    def __del__(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
