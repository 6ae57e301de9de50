"""What a stream can take: how wide it is, whether it shows colours (NO_COLOR and FORCE_COLOR count), which characters it knows."""

from __future__ import annotations

import io
import os
from typing import Final, TextIO

from slowstep.harmless import harmless

# By POSIX, in this order.
_LOCALE: Final = ("LC_ALL", "LC_CTYPE", "LANG")
_C_LOCALE: Final = ("C", "POSIX")


def width_of(stream: TextIO | None) -> int:
    """Cells of a line; 80 where nobody says, and of a stream that came closed."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) > 0:
        return int(columns)
    if stream is None:
        return 80
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
    """Whether it shows more than ASCII: Python writes UTF-8 in the C locale too, whose terminal may know no more."""
    return _is_utf(stream) and not _is_c_locale()


def _is_utf(stream: TextIO) -> bool:
    return (stream.encoding or "").lower().startswith("utf")


def _is_c_locale() -> bool:
    """Whether the user has asked for it, and for no encoding. The first variable that is set counts; of none nobody has asked."""
    asked = next(filter(None, map(os.environ.get, _LOCALE)), "")
    return asked in _C_LOCALE and not os.environ.get("PYTHONIOENCODING")


def write_plainly(*streams: TextIO | None) -> None:
    """Have streams of this process written in what they can show, by whatever writes to them, and escaped what they cannot."""
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper) and not takes_unicode(stream):
            stream.reconfigure(encoding="ascii" if _is_utf(stream) else None, errors="backslashreplace")


def print_line(text: str, stream: TextIO) -> None:
    """Print lines as the stream can take them: nothing that a terminal obeys, and escapes for what its encoding lacks."""
    encoding = stream.encoding or "utf-8"
    print(harmless(text, lines=True).encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)
