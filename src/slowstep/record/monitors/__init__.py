"""Monitors: one resource each, read from outside the training, in slowstep's own process.

A monitor is one file here with `MONITOR = Monitor(name=..., kind=..., open=...)`. `open` gets the process at the root of the
user's command and returns a Reader, or raises Absent where this machine does not show the resource.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Absent(Exception):
    """This machine does not show the resource; the message says what is missing."""


class Reader(Protocol):
    """An opened monitor, read about ten times a second."""

    def read(self, now_ns: int) -> tuple[int, int, int]:
        """The fields a, b, c of the reading's record at that moment, as record/format.py defines them for its kind."""

    def close(self) -> None:
        """Give back what was kept open."""


@dataclass(frozen=True, kw_only=True)
class Monitor:
    """A resource that is read: its name, the kind of its records, and how to begin."""

    name: str
    kind: int
    open: Callable[[int], Reader]
