"""What a stream can take: how wide it is, whether it shows colours (NO_COLOR and FORCE_COLOR count), which characters it knows."""

from __future__ import annotations

import os
from typing import TextIO

from slowstep.harmless import harmless


def width_of(stream: TextIO) -> int:
    """Cells of a line; 80 where nobody says."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def takes_color(stream: TextIO) -> bool:
    """Whether ANSI colours are shown."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def takes_unicode(stream: TextIO) -> bool:
    """Whether it shows more than ASCII."""
    return (stream.encoding or "").lower().startswith("utf")


def print_line(text: str, stream: TextIO) -> None:
    """Print lines as the stream can take them: nothing that a terminal obeys, and escapes for what its encoding lacks."""
    encoding = stream.encoding or "utf-8"
    print(harmless(text, lines=True).encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)
