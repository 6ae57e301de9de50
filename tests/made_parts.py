"""Parts of a ledger, as tests write them."""

from __future__ import annotations

from slowstep.parts import CodePlace, Part, PartKind


def function_part(stage: str, name: str, file: str, line: int) -> Part:
    """A function of the user's."""
    return Part(stage, PartKind.FUNCTION, name, CodePlace(file, line))


def lines_part(stage: str, file: str, first: int, last: int | None = None) -> Part:
    """A line of the training loop itself, or those of a loop in it."""
    return Part(stage, PartKind.LINES, None, CodePlace(file, first, last))
