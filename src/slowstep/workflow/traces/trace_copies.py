"""Which traces lie there twice: as they were written, and packed beside it under the same name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from slowstep.sources._gzip import Unpacked
from slowstep.workflow.traces.find import FoundTrace

PACKED: Final = ".gz"
# Of each of the two at a time.
BLOCK_BYTES: Final = 1 << 20


def without_copies(found: Sequence[FoundTrace]) -> tuple[list[FoundTrace], list[Path]]:
    """The traces, of a file and its packed copy (`trace.json` and `trace.json.gz` of the same content) only the file; and the copies."""
    places = {each.path.resolve() for each in found}
    copies = [each for each in found if _unpacked_name(each.path) in places and _is_copy(each.path)]
    return [each for each in found if each not in copies], [each.path for each in copies]


def _unpacked_name(path: Path) -> Path | None:
    place = path.resolve()
    return place.with_suffix("") if place.suffix == PACKED else None


def _is_copy(packed: Path) -> bool:
    """Whether a packed file holds what the file beside it does; it is taken for another one where either cannot be read."""
    plain = _unpacked_name(packed)
    try:
        return plain is not None and plain.is_file() and packed.is_file() and _hold_the_same(packed, plain)
    except OSError:
        return False


def _hold_the_same(one: Path, other: Path) -> bool:
    blocks, others = iter(Unpacked(one, BLOCK_BYTES)), iter(Unpacked(other, BLOCK_BYTES))
    mine = its = b""
    while True:
        mine, its = mine or next(blocks, b""), its or next(others, b"")
        length = min(len(mine), len(its))
        if not length or mine[:length] != its[:length]:
            return mine == its
        mine, its = mine[length:], its[length:]
