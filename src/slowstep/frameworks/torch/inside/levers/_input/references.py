"""Whether anybody else still uses an object: by the count of references to it."""

from __future__ import annotations

import sys
from typing import Any


def is_referred_to_only_by(holder: Any, attribute: str) -> bool:
    """Whether nobody but this attribute refers to what it holds. Asked from a frame that does not either."""
    return _count(holder, attribute) <= _count(_Holder(), "held")


class _Holder:
    """Holds an object that nobody else refers to: what the count is then differs between versions of Python."""

    def __init__(self) -> None:
        self.held = _Thing()


class _Thing:
    pass


def _count(holder: Any, attribute: str) -> int:
    return sys.getrefcount(getattr(holder, attribute))
