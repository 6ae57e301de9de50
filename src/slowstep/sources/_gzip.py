"""A file's bytes, unpacked where they are gzip, as blocks; a damaged file gives what can be unpacked and says that it is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
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
    ended the unpacking early, `is_cut_off` is whether that was the end of the file, and `unpacked_bytes` is what came out. Raises OSError
    where the file cannot be read.
    """

    def __init__(self, path: Path, block_bytes: int) -> None:
        self.size_bytes = path.stat().st_size
        self.share = 0.0
        self.damage: str | None = None
        self.is_cut_off = False
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
        if length:
            yield b"".join(parts)

    def _pieces(self, file: Any) -> Iterator[bytes]:
        """Unpacked pieces of all members, one after the other; what follows the last one and is no gzip is left alone, as gzip does."""
        member, begins_at, given_bytes = _new_member(), 0, 0
        packed = file.read(_PACKED_BYTES)
        try:
            while packed:
                piece = member.decompress(packed, self._block_bytes)
                given_bytes += len(piece)
                yield piece
                packed = member.unconsumed_tail or member.unused_data
                if member.eof:
                    packed = packed or file.read(_PACKED_BYTES)
                    if packed[: len(GZIP_MAGIC)] != GZIP_MAGIC:
                        return
                    member, begins_at, given_bytes = _new_member(), file.tell() - len(packed), 0
                elif not packed:
                    packed = file.read(_PACKED_BYTES)
            if not member.eof:
                yield member.flush()
                self.damage, self.is_cut_off = "the gzip file was cut off", True
        except _DAMAGED as error:
            self.damage = f"the gzip file is damaged ({error})"
            yield from self._up_to_damage(file, begins_at, file.tell() - len(packed), given_bytes)

    def _up_to_damage(self, file: Any, begins_at: int, failed_at: int, given_bytes: int) -> Iterator[bytes]:
        """What the call that failed had unpacked and kept to itself, up to all of the member where only its checksum is wrong.

        The member that begins at one place of the file is unpacked once more, without the bytes of it that were given already; from the
        place on at which the input of the failed call begins byte by byte, so that a call which fails keeps nothing back.
        """
        member, seen_bytes = _new_member(), 0
        file.seek(begins_at)
        with suppress(*_DAMAGED):
            while packed := file.read(min(_PACKED_BYTES, failed_at - file.tell()) if file.tell() < failed_at else 1):
                while packed:
                    piece = member.decompress(packed, self._block_bytes)
                    yield piece[max(0, given_bytes - seen_bytes) :]
                    seen_bytes += len(piece)
                    packed = member.unconsumed_tail


def _new_member() -> Any:
    return isal_zlib.decompressobj(wbits=_GZIP_WINDOW)


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
