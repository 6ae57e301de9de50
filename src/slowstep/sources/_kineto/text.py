"""The text of a Chrome trace, cut into chunks of whole events without reading it as a whole.

Kineto writes every event with the same text between it and the next (`},\\n  {`), and so does every other writer: the text between the
first two events is what chunks are cut at. A wrong cut, in a string or inside a nested object, leaves a chunk that is no JSON, so it
cannot go unseen; then the structure itself is followed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

# What stands before the events: device properties and the job's process groups; the largest jobs need some MB.
HEADER_BYTES: Final = 64 << 20
EVENTS_KEY: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
GAP: Final = re.compile(rb"\s*,\s*(?=\{)")
SPACE: Final = b" \t\r\n"
MARK: Final = b"\xef\xbb\xbf"

_QUOTE, _BACKSLASH, _OPEN, _CLOSE = 1, 2, 3, 4
_CLASS = np.zeros(256, dtype=np.uint8)
_CLASS[ord('"')], _CLASS[ord("\\")] = _QUOTE, _BACKSLASH
_CLASS[[ord("{"), ord("[")]], _CLASS[[ord("}"), ord("]")]] = _OPEN, _CLOSE


@dataclass(frozen=True, slots=True)
class Scan:
    """Where the events of a text lie: bounds of whole ones; where the list of events ends, if it does; where an unfinished event begins."""

    spans: list[tuple[int, int]]
    list_end: int | None
    rest: int | None


def scan(text: bytes) -> Scan:
    """Follow strings and nesting of a text that begins between two events of a list. Never raises: any bytes have some structure."""
    at, depth = _nesting(text)
    if not len(at):
        return Scan([], None, None)
    before = np.concatenate(([0], depth[:-1]))
    over = np.flatnonzero(depth < 0)
    list_end = int(at[over[0]]) if len(over) else None
    if len(over):
        at, depth, before = at[: over[0]], depth[: over[0]], before[: over[0]]
    starts = at[(before == 0) & (depth == 1)]
    ends = at[(before == 1) & (depth == 0)] + 1
    rest = int(starts[len(ends)]) if len(starts) > len(ends) else None
    return Scan(list(zip(starts.tolist(), ends.tolist(), strict=False)), list_end, rest)


def _nesting(text: bytes) -> tuple[Ints, Ints]:
    """Positions of brackets outside of strings, and the depth after each."""
    classes = _CLASS[np.frombuffer(text, dtype=np.uint8)]
    at = np.flatnonzero(classes)
    kinds = classes[at]
    escaped = _escaped(at[kinds == _BACKSLASH])
    if len(escaped):
        kept = ~np.isin(at, escaped, assume_unique=True)
        at, kinds = at[kept], kinds[kept]
    quotes = kinds == _QUOTE
    outside = (np.cumsum(quotes) % 2 == 0) & (kinds >= _OPEN)
    at = at[outside]
    steps = np.where(kinds[outside] == _OPEN, 1, -1)
    return at, np.cumsum(steps)


def _escaped(backslashes: Ints) -> Ints:
    """Positions of the characters that an odd number of backslashes stands before."""
    if not len(backslashes):
        return backslashes
    first = np.flatnonzero(np.diff(backslashes, prepend=-2) != 1)
    lengths = np.diff(first, append=len(backslashes))
    ends: Any = backslashes[first] + lengths
    return np.asarray(ends[lengths % 2 == 1])


def nesting_depth(text: bytes) -> int:
    """How many brackets are open where a text ends."""
    _, depth = _nesting(text)
    return int(depth[-1]) if len(depth) else 0


def find_gap(text: bytes) -> bytes | None:
    """The text between the first two events; None where there are no two yet."""
    for _, end in scan(text).spans[:1]:
        if match := GAP.match(text, end):
            return match.group()
    return None


def is_list(text: bytes) -> bool:
    """Whether a trace is a plain list of events, without an object around it."""
    return text.lstrip(MARK).lstrip(SPACE).startswith(b"[")
