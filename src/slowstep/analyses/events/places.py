"""Places as tables of traces hold them: one text each, `step (train.py:82)`, made here, and read only where tables become parts.

It may be shown as it is; what part_words.py writes of a place may become another text without a change here.
"""

from __future__ import annotations

import re
from typing import Final

from slowstep.parts import CodePlace

_SEPARATOR: Final = re.compile(r"[/\\]")


def place_text(place: CodePlace) -> str:
    """`train.py`, `train.py:12`, `train.py:30-34`, `step (train.py:82)`."""
    line = "" if place.line is None else f":{place.line}"
    last = "" if place.last_line is None else f"-{place.last_line}"
    return f"{place.file}{line}{last}" if place.function is None else f"{place.function} ({place.file}{line}{last})"


def place_of_text(text: str) -> CodePlace:
    """The place of which that is the text."""
    function, _, inside = text.removesuffix(")").partition(" (") if text.endswith(")") else ("", "", text)
    file, _, lines = inside.rpartition(":")
    line, _, last = lines.partition("-")
    if not line.isdecimal() or (last and not last.isdecimal()):
        return CodePlace(inside, None, None, function or None)
    return CodePlace(file, int(line), int(last) if last else None, function or None)


def is_function(text: str) -> bool:
    """Whether a place is that of a function, and not of a module's own lines."""
    return place_of_text(text).line is not None


def without_folders(text: str) -> str:
    """A place with the file without its folders."""
    place = place_of_text(text)
    return place_text(place._replace(file=_SEPARATOR.split(place.file)[-1]))
