"""A unified difference of one file, byte by byte as it is: `patch -p0` and `git apply -p0` take it, and with -R take it back."""

from __future__ import annotations

import difflib
import os
from typing import Final

from slowstep.prove.patch.source import NoPatch

_NO_NEWLINE: Final = b"\\ No newline at end of file\n"


def difference(before: bytes, after: bytes, name: str) -> bytes:
    """`name` is the file's path, relative to where the patch is applied. Raises NoPatch for one that cannot stand in a patch."""
    if not name.isprintable() or name.startswith('"') or os.pardir in name.split("/"):
        raise NoPatch("its path cannot be written into a patch")
    # What comes behind a tab is no name: with a space in it a name ends there.
    title = os.fsencode(name) + (b"\t" if " " in name else b"")
    rows = difflib.diff_bytes(difflib.unified_diff, _lines(before), _lines(after), title, title, lineterm=b"\n")
    return b"".join(row if row.endswith(b"\n") else row + b"\n" + _NO_NEWLINE for row in rows)


def _lines(raw: bytes) -> list[bytes]:
    """By line feeds alone: other ends of lines are what a line holds."""
    return [line + b"\n" for line in raw.split(b"\n")[:-1]] + ([raw.rsplit(b"\n", 1)[-1]] if not raw.endswith(b"\n") else [])
