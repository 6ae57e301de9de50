"""How much room the experiment may take on the disks where its writes go, and whether it keeps to it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable
from typing import Final

from slowstep.units import format_bytes

# A scratch with less is not begun; and so much, or half of what is free if that is less, is left for everybody else.
LEAST_BYTES: Final = 500_000_000
MOST_BYTES: Final = 50_000_000_000
# Looking may cost a hundredth of the time.
_LEAST_PAUSE_S: Final = 1.0
_PAUSE_PER_COST: Final = 100


class Room:
    """Adds up, now and then, what lies in the places; `limit_bytes` is at most half of what is free at the beginning."""

    def __init__(self, places: Iterable[str], *, limit_bytes: int | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self._places, self._now = tuple(places), now
        free = min((free_bytes(place) for place in self._places if os.path.exists(place)), default=MOST_BYTES)
        self._at_begin = self.used_bytes()
        self.limit_bytes = min(MOST_BYTES, free // 2) if limit_bytes is None else limit_bytes
        self._due_s = 0.0

    def problem(self) -> str | None:
        """Why the experiment must end, as a clause; None while there is room, or when it is too early to look again."""
        began_s = self._now()
        if began_s < self._due_s:
            return None
        used = self.used_bytes() - self._at_begin
        ended_s = self._now()
        self._due_s = ended_s + max(_LEAST_PAUSE_S, (ended_s - began_s) * _PAUSE_PER_COST)
        if used <= self.limit_bytes:
            return None
        most = "the most that an experiment may write" if self.limit_bytes == MOST_BYTES else "half of what the disk had free"
        remedy = "free some space, or give a folder on another disk with --out"
        return f"{format_bytes(used)} were written, more than {most} ({format_bytes(self.limit_bytes)}): {remedy}"

    def used_bytes(self) -> int:
        """Bytes on disk of all that lies in the places."""
        return sum(_size_bytes(place) for place in self._places)


def free_bytes(path: str) -> int:
    """Bytes that may still be written where a path lies. Raises OSError."""
    return shutil.disk_usage(path).free


def _size_bytes(place: str) -> int:
    found = 0
    waiting = [place]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    found += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue  # gone meanwhile, or the overlay's own
    return found
