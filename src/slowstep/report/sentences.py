"""Clauses that rules write become sentences: they begin with a capital, but for what is a name."""

from __future__ import annotations

import re
from typing import Final

# A lower-case word of prose. What is called, assigned to, or followed by its place in brackets is a name: "plot (train.py:4) runs ...".
_PROSE: Final = re.compile(r"[a-z]+(?= (?![=(]))|[a-z]+(?=, )")
# Words that begin a title. What else begins one is the name of a function, a kernel or a thread.
_OPENING: Final = re.compile(
    r"(?:an?|all|anomaly|another|batches|between|checkpoints|collectives|copies|deterministic|device|every|for|how|in|kernels|making|matrix|memory"
    r"|most|no|of|only|preprocessing|samples|sizes|small|starting|steps|the|this|validation|what|whether|workers) (?!\()"
)


def as_title(text: str) -> str:
    """A finding's title, or a verdict's summary, that may begin with a name."""
    return text if _OPENING.match(text) is None else _capital(text)


def as_advice(text: str) -> str:
    """What to do, which begins with a verb or with code."""
    return text if _PROSE.match(text) is None else _capital(text)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
