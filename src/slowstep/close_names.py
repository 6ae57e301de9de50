"""What was probably meant by a name that does not exist: the names that are spelled much like it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

# Two names that share fewer of their letters than this are no typo of each other: the share that Python's own difflib takes.
_CLOSE: Final = 0.6


def close_names(name: str, known: Iterable[str], most: int) -> list[str]:
    """Those of the known names that are close to it, the closest first, at most so many."""
    return difflib.get_close_matches(name, list(known), n=most, cutoff=_CLOSE)
