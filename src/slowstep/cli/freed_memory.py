"""What is freed goes back to the system, so that the largest table of an analysis is its peak, not the sum of all it made.

Allocators keep what was freed for the next request, and the parts of a trace's analysis ask for tables of all sizes. What polars is told it
reads when it is loaded; numpy allocates as the C library does.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

# jemalloc(3), opt.dirty_decay_ms and opt.muzzy_decay_ms; polars puts what it finds there behind its own.
POLARS: Final = "_RJEM_MALLOC_CONF"
# mallopt(3): blocks from this size on are mapped by themselves, and a free end of the heap of that size is given back.
M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
# One heap for all threads: what is freed in one of several, none of the others takes.
M_ARENA_MAX: Final = -8
LARGE_BYTES: Final = 256 << 20
# Kineto's files pack to a ninth to an eleventh.
PACKED_TO: Final = 1 / 8


@dataclass(frozen=True, slots=True)
class Habit:
    """What polars is told, and how large a block is that numpy gives back by itself."""

    polars: str
    block_bytes: int


AT_ONCE: Final = Habit("dirty_decay_ms:0,muzzy_decay_ms:0", 3 << 19)
# Giving small blocks back at once costs more than they hold: of a Kineto file of 1 GB this leaves a third of the page faults, and takes 5 s
# of CPU time less, for 3 % more memory (benchmarks/README.md). What is kept are some 50 MB, of small traces too: they have not the room.
LATER: Final = Habit("dirty_decay_ms:500,muzzy_decay_ms:0", 1 << 23)


def give_back_freed_memory(paths: Iterable[str] = ()) -> None:
    """Tell the allocators of this process, before polars is imported. Where one cannot be told (musl, macOS), more memory is used.

    `paths` are what is going to be analyzed; words that are no paths are passed over.
    """
    habit = LATER if any(map(_is_large, paths)) else AT_ONCE
    os.environ.setdefault(POLARS, habit.polars)
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    set_option(M_ARENA_MAX, 1)
    set_option(M_MMAP_THRESHOLD, habit.block_bytes)
    set_option(M_TRIM_THRESHOLD, habit.block_bytes)


def _is_large(path: str) -> bool:
    """Whether a file holds so much JSON, packed or not, that 0.9 byte for each of its bytes leave room for what is kept for a while."""
    try:
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            head = file.read(2)
        size = os.path.getsize(path)
    except (OSError, ValueError):
        return False
    return size >= LARGE_BYTES * (PACKED_TO if head == b"\x1f\x8b" else 1) and (head == b"\x1f\x8b" or head[:1] in (b"{", b"["))
