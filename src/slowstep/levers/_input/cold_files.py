"""In a loader's worker: files leave the page cache as they are opened, so that each is read from storage."""

from __future__ import annotations

import os
import stat
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

_LIBRARIES: Final = tuple({os.path.realpath(path) + os.sep for path in (sys.prefix, sys.base_prefix)})
_CODE: Final = (".py", ".pyc", ".so", ".pth")
# Who opens a file reads it whole and has it in the cache again. Of a larger one it may be a part, and the training as it is would miss the
# rest.
LARGEST_BYTES: Final = 64 << 20


class ColdStart:
    """A `worker_init_fn` from which on this process's files are dropped as they are opened. It can be sent to a spawned worker."""

    def __init__(self, start: Callable[[int], Any] | None) -> None:
        self._start = start

    def __call__(self, worker: int) -> None:
        """Called in a new worker. An audit hook cannot be taken away; it ends with the worker."""
        sys.addaudithook(_Opened().look)
        if self._start is not None:
            self._start(worker)


class _Opened:
    """What the audit hook remembers: that it opens a file itself."""

    def __init__(self) -> None:
        self._local = threading.local()

    def look(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Called by Python for every audited event."""
        if event != "open" or getattr(self._local, "is_ours", False):
            return
        self._local.is_ours = True
        try:
            path, _, flags = arguments
            if isinstance(path, (str, bytes, os.PathLike)) and not flags & (os.O_WRONLY | os.O_RDWR):
                drop_file(os.fsdecode(path))
        except (OSError, ValueError, TypeError):
            # The opening itself will say so.
            pass
        finally:
            self._local.is_ours = False


def drop_file(path: str) -> None:
    """Drop a file's pages, unless it is code or large. Raises OSError where it cannot be opened."""
    if is_code(path):
        return
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(handle)
        if stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST_BYTES:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def is_code(path: str) -> bool:
    """Whether a file belongs to Python or a program."""
    return path.endswith(_CODE) or os.path.realpath(path).startswith(_LIBRARIES)
