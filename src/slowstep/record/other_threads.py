"""The frames of other threads, taken so that none of them dies meanwhile.

Before Python 3.12 any allocation may start a garbage collection, also that of the object that stands for a running frame. A collection runs
finalizers, and frees tensors: both let other threads run. The frame that is being made an object of may then have returned, and the object
points to memory that is another frame's by now. Reading it ends the training (a fault seen in one of twenty runs of a busy machine).
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
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


def current_frames() -> dict[int, FrameType]:
    """The innermost frame of every thread, by the thread's ident."""
    return without_collecting(sys._current_frames)
