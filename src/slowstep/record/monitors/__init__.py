"""Monitors: one resource each, read from outside the training, in slowstep's own process.

A monitor is one file here with `MONITOR = Monitor(name=..., open=...)`. `open` gets the place where the user's command runs and returns
a Reader, or raises Absent where this machine does not show the resource.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from slowstep.record.system.family import Family

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# What changes slowly, or is a sum that loses nothing by being read rarely.
SLOW_S: Final = 1.0

# The fields of one record: kind, a, b, c (as record/writing/format.py defines them for the kind) and the index that stands in `thread`.
Reading = tuple[int, int, int, int, int]


class Absent(Exception):
    """This machine does not show the resource; the message says what is missing.

    `usual` where many machines have none (a quota, an accelerator): that is worth a line in the recording, but no doubt in the report.
    """

    def __init__(self, message: str, *, usual: bool = False) -> None:
        super().__init__(message)
        self.usual = usual


class MonitoredCommand:
    """Where the user's command runs: its first process and all below, and the folders in which the kernel shows the machine."""

    def __init__(self, root: int, *, proc: str = "/proc", sys: str = "/sys") -> None:
        self.root, self.proc, self.sys = root, proc, sys
        self.family = Family(root, proc)


class Reader:
    """An opened monitor. `facts` are lines for the notes, written once."""

    facts: Sequence[dict[str, Any]] = ()

    def read(self, now_ns: int) -> list[Reading]:
        """The readings of that moment; none where there is nothing new to say. Whatever it raises ends this monitor alone."""
        raise NotImplementedError

    def close(self) -> None:
        """Give back what was kept open."""


@dataclass(frozen=True, kw_only=True)
class Monitor:
    """A resource that is read: its name, how to begin, and how often at most."""

    name: str
    open: Callable[[MonitoredCommand], Reader]
    every_s: float = SLOW_S


class KernelFile:
    """A file of the kernel that stays open: reading it anew costs a third of opening it."""

    __slots__ = ("_bytes", "_handle")

    def __init__(self, path: str, size_bytes: int = 4096, *, usual: bool = False) -> None:
        """Raises Absent where it cannot be opened."""
        self._bytes = size_bytes
        self._handle = -1
        try:
            self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise Absent(f"{path}: {error.strerror}", usual=usual) from None

    def read(self) -> bytes:
        """Its content now, at most so many bytes as was said. Raises OSError where it has vanished."""
        return os.pread(self._handle, self._bytes, 0)

    def read_all(self) -> bytes:
        """All of it, where the kernel hands it out in pieces of a page (lists: disks, interfaces, counters)."""
        parts, at = [], 0
        while part := os.pread(self._handle, self._bytes, at):
            parts.append(part)
            at += len(part)
        return b"".join(parts)

    def close(self) -> None:
        """Close it."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


R = TypeVar("R", bound=Reader)


def opened(reader: R, now_ns: int, *, usual: bool = False) -> R:
    """The reader, after a first reading that shows whether the files are as expected. Raises Absent where they are not."""
    try:
        reader.read(now_ns)
    except (OSError, ValueError, LookupError) as error:
        reader.close()
        raise Absent(f"cannot be read: {error}", usual=usual) from None
    return reader
