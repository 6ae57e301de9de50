"""A file's bytes, unpacked where they are gzip, as blocks; a damaged file gives what can be unpacked and says that it is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from isal import isal_zlib

GZIP_MAGIC = b"\x1f\x8b"
# zlib's number for "a gzip header, largest window".
_GZIP_WINDOW = 31
# One member of a gzip file may hold a thousand times its packed size: unpacking is stopped after each block of this much.
_PACKED_BYTES = 1 << 18
_DAMAGED: tuple[type[Exception], ...] = (isal_zlib.IsalError,)  # type: ignore[assignment]


class Unpacked:
    """The blocks of a file, each at most `block_bytes` long.

    While iterating, `share` is the share of the file on disk that was read, 0 to 1. Afterwards `damage` is None, or says in words what
    ended the unpacking early, and `unpacked_bytes` is what came out. Raises OSError where the file cannot be read.
    """

    def __init__(self, path: Path, block_bytes: int) -> None:
        self.size_bytes = path.stat().st_size
        self.share = 0.0
        self.damage: str | None = None
        self.unpacked_bytes = 0
        self._path = path
        self._block_bytes = block_bytes

    def __iter__(self) -> Iterator[bytes]:
        with self._path.open("rb") as file:
            packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
            file.seek(0)
            for block in self._unpacked(file) if packed else self._plain(file):
                self.share = min(1.0, file.tell() / max(self.size_bytes, 1))
                self.unpacked_bytes += len(block)
                yield block

    def _plain(self, file: Any) -> Iterator[bytes]:
        while block := file.read(self._block_bytes):
            yield block

    def _unpacked(self, file: Any) -> Iterator[bytes]:
        parts: list[bytes] = []
        length = 0
        for piece in self._pieces(file):
            parts.append(piece)
            length += len(piece)
            if length >= self._block_bytes:
                yield b"".join(parts)
                parts, length = [], 0
        if parts:
            yield b"".join(parts)

    def _pieces(self, file: Any) -> Iterator[bytes]:
        """Unpacked pieces of all members, one after the other; what follows the last one and is no gzip is left alone, as gzip does."""
        member = isal_zlib.decompressobj(wbits=_GZIP_WINDOW)
        packed = file.read(_PACKED_BYTES)
        try:
            while packed:
                yield member.decompress(packed, self._block_bytes)
                packed = member.unconsumed_tail or member.unused_data
                if member.eof:
                    packed = packed or file.read(_PACKED_BYTES)
                    if packed[: len(GZIP_MAGIC)] != GZIP_MAGIC:
                        return
                    member = isal_zlib.decompressobj(wbits=_GZIP_WINDOW)
                elif not packed:
                    packed = file.read(_PACKED_BYTES)
            if not member.eof:
                yield member.flush()
                self.damage = "the gzip file was cut off"
        except _DAMAGED as error:
            self.damage = f"the gzip file is damaged ({error})"


def peek(path: Path, most_bytes: int) -> Iterator[bytes]:
    """The first bytes of a file, unpacked, as blocks; nothing where it cannot be read."""
    seen = 0
    try:
        for block in Unpacked(path, 1 << 16):
            yield block
            seen += len(block)
            if seen >= most_bytes:
                return
    except OSError:
        return
