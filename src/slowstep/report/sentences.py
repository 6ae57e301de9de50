"""Clauses that rules write become sentences: they begin with a capital, but for what is a name."""

from __future__ import annotations

import re
from typing import Final

# A lower-case word of prose. What is called, assigned to, or followed by its place in brackets is a name: "plot (train.py:4) runs ...".
_PROSE: Final = re.compile(r"[a-z]+(?= (?![=(]))|[a-z]+(?=, )")


def as_title(text: str, *, opens_with_name: bool) -> str:
    """A finding's title, or a verdict's answer. A report that does not say whether that begins with a name may have one there."""
    return text if opens_with_name else _capital(text)


def as_advice(text: str) -> str:
    """What to do, which begins with a verb or with code."""
    return text if _PROSE.match(text) is None else _capital(text)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
