"""Whether this process was started by multiprocessing, which is not imported to know it, and how such a child is told of its end."""

from __future__ import annotations

import sys
from collections.abc import Callable


def is_child_of_multiprocessing() -> bool:
    """Whether this process is one."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def before_child_ends(do: Callable[[], None]) -> None:
    """Call it last before this process leaves, where it is one: such children leave without running what atexit knows."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None and is_child_of_multiprocessing():
        util.Finalize(None, do, exitpriority=-100)
