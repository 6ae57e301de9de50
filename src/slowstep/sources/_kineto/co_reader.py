"""The process that reads some of a file's chunks: the other side of `co_readers`."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec

from slowstep.sources._kineto.columns import Columns
from slowstep.sources._kineto.events import DECODERS, Events, decode_wide
from slowstep.sources._kineto.share import write_share

_READ: Final = b"."


class NeedsOthers(Exception):
    """A chunk whose events end events of other chunks."""


def main(folder: str) -> None:
    """Read the chunks named on standard input until told to end. Any error ends the process: the other side then reads alone."""
    counts: Counter[str] = Counter()
    columns = Columns(counts)
    for line in sys.stdin.buffer:
        if line == b"end\n":
            write_share(columns, counts, Path(folder))
            return
        turn, decoder = map(int, line.split())
        file = Path(folder) / str(turn)
        text = file.read_bytes()
        file.unlink()
        columns.add(_decoded(text, decoder), turn)
        if columns.pairs.begins_alone or columns.pairs.ends_alone:
            raise NeedsOthers
        os.write(sys.stdout.fileno(), _READ)


def _decoded(text: bytes, decoder: int) -> Events:
    try:
        return DECODERS[decoder](text)
    except msgspec.ValidationError:
        return decode_wide(text)
