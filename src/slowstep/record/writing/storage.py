"""Where records go: a reserved, memory-mapped file, or a small buffer and plain writes where mapping is not safe."""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Callable
from typing import Final

from slowstep.record.writing.format import FIRST_RESERVE_BYTES, LARGEST_RESERVE_BYTES, RECORD_BYTES

# A mapping must begin at a page and a chunk must hold whole records: the least common multiple of 4096 and 48.
GRANULE_BYTES: Final = 12288
assert GRANULE_BYTES % RECORD_BYTES == 0
# Reserved but not written, so that a full disk leaves room for saying that it was full.
SPARE_BYTES: Final = GRANULE_BYTES
FLUSH_RECORDS: Final = 64
_MAPPABLE: Final = frozenset({b"ext4", b"xfs", b"tmpfs"})

Reserve = Callable[[int, int, int], None]


def map_shared(handle: int, size: int, offset: int = 0) -> mmap.mmap:
    """Map a part of a file; where Python allows it without a descriptor of its own, which a script that closes all could confuse."""
    if sys.version_info >= (3, 13):
        return mmap.mmap(handle, size, offset=offset, trackfd=False)
    return mmap.mmap(handle, size, offset=offset)


class AppendFile:
    """A file written by whole appends. Writes by file descriptor only while it is still ours: a script may close what it did not open."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._handle, self._identity = -1, (0, 0)

    def write(self, data: bytes) -> None:
        """Append, in one write. Raises OSError, also where the disk took only a part."""
        handle = self._handle if self._is_ours() else self._open()
        if os.write(handle, data) != len(data):
            raise OSError(28, "the disk took only a part of a write", self.path)

    def close(self) -> None:
        """Close the file, if it is still ours."""
        if self._is_ours():
            os.close(self._handle)
        self._handle = -1

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._handle = os.open(self.path, flags, 0o600)
        status = os.fstat(self._handle)
        self._identity = (status.st_dev, status.st_ino)
        return self._handle

    def _is_ours(self) -> bool:
        if self._handle < 0:
            return False
        try:
            status = os.fstat(self._handle)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._identity


class MappedFile:
    """A record file that grows by reserved, mapped chunks. Reserved space cannot run out under a write, which would kill the training."""

    def __init__(self, path: str, *, limit_bytes: int, reserve: Reserve = os.posix_fallocate) -> None:
        self.path = path
        self.base = self.end = 0
        self.is_last = False
        self._limit_bytes = limit_bytes // GRANULE_BYTES * GRANULE_BYTES
        self._reserve = reserve
        self._next_bytes = FIRST_RESERVE_BYTES // GRANULE_BYTES * GRANULE_BYTES

    def chunk(self) -> mmap.mmap | None:
        """The next part of the file, mapped; None when the limit is reached. Raises OSError where the disk is full."""
        size = min(self._next_bytes, self._limit_bytes - self.end)
        if size <= 0:
            return None
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            self._reserve(handle, self.end, size + SPARE_BYTES)
            mapped = map_shared(handle, size, self.end)
        finally:
            os.close(handle)
        self.base, self.end = self.end, self.end + size
        self.is_last = self.end >= self._limit_bytes
        self._next_bytes = min(size * 2, LARGEST_RESERVE_BYTES // GRANULE_BYTES * GRANULE_BYTES)
        return mapped

    def trim(self, used_bytes: int) -> None:
        """Give back what was reserved and not used. Nobody may write to a chunk afterwards."""
        try:
            os.truncate(self.path, used_bytes)
        except FileNotFoundError:
            pass


def is_mappable(folder: str) -> bool:
    """Whether a folder is on a file system where reserved space is really there: local ext4, xfs or tmpfs, and not /dev/shm."""
    try:
        device = os.stat(folder).st_dev
        wanted = f"{os.major(device)}:{os.minor(device)}".encode()
        with open("/proc/self/mountinfo", "rb") as file:
            for line in file:
                fields = line.split(b" ")
                if fields[2] == wanted:
                    kind = line.partition(b" - ")[2].split(b" ", 1)[0]
                    return kind in _MAPPABLE and fields[4] != b"/dev/shm"
    except OSError:
        pass
    return False
