"""In a loader's worker: files leave the page cache before they are read, so that each is read from storage."""

from __future__ import annotations

import os
import stat
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

_LIBRARIES: Final = tuple({os.path.realpath(path) + os.sep for path in (sys.prefix, sys.base_prefix)})
_CODE: Final = (".py", ".pyc", ".so", ".pth")


class Cold:
    """Drops what a worker opens, from its start on, and what it holds open, batch by batch. Both parts can be sent to a spawned worker."""

    def __init__(self, start: Callable[[int], Any] | None, collate: Callable[[Any], Any]) -> None:
        self._start, self._collate = start, collate

    def start(self, worker: int) -> None:
        """The `worker_init_fn`: from now on this process's files are dropped as they are opened; it ends with its loader."""
        sys.addaudithook(_OpenedFiles().look)
        if self._start is not None:
            self._start(worker)

    def collate(self, samples: Any) -> Any:
        """The `collate_fn`: a batch has been read, and files that stay open are dropped before the next one."""
        try:
            drop_open_files()
        except OSError:
            pass
        return self._collate(samples)


class _OpenedFiles:
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
            pass
        finally:
            self._local.is_ours = False


def drop_file(path: str) -> None:
    """Drop a file's pages, unless it is code. Raises OSError where it cannot be opened."""
    if is_code(path):
        return
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        _drop(handle)
    finally:
        os.close(handle)


def drop_open_files() -> None:
    """Drop the pages of all files that this process holds open for reading. Raises OSError where the system does not list them."""
    for name in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{name}")
            if path.startswith("/") and not path.startswith(("/dev/", "/proc/", "/sys/")) and not is_code(path):
                _drop(int(name))
        except OSError:
            continue


def is_code(path: str) -> bool:
    """Whether a file belongs to Python or a program."""
    return path.endswith(_CODE) or os.path.realpath(path).startswith(_LIBRARIES)


def _drop(handle: int) -> None:
    if stat.S_ISREG(os.fstat(handle).st_mode):
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
