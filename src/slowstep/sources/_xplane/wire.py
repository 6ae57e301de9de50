"""Takes an XPlane file apart into planes, and saves what can be saved of one that was cut off or is malformed.

The wire format is that of protobuf.dev, "Encoding": fields of a key (number and wire type) and a value; messages inside messages are
values with a length before them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from slowstep.sources._xplane.schema import MESSAGES, message_class

_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
PLANES, HOSTNAMES = MESSAGES["XSpace"]["planes"][0], MESSAGES["XSpace"]["hostnames"][0]
LINES: Final = MESSAGES["XPlane"]["lines"][0]
EVENTS: Final = MESSAGES["XLine"]["events"][0]
# Bytes of events that are decoded at one time: some 30,000 of them, which take about ten times as much once they are messages.
PIECE_BYTES: Final = 1 << 20


class Malformed(ValueError):
    """Bytes are not what the wire format says."""


def fields(data: memoryview) -> Iterator[tuple[int, int, int, int, int]]:
    """The fields of a message: number, wire type, where the field begins, where its value begins, where it ends.

    The end may lie beyond the data in the last one, if that was cut off. Raises Malformed at the first that cannot be one.
    """
    at = 0
    while at < len(data):
        begin = at
        key, at = _varint(data, at)
        kind, value = key & 7, at
        if kind == _VARINT:
            _, at = _varint(data, at)
        elif kind == _LENGTH:
            length, value = _varint(data, at)
            at = value + length
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            at += 8 if kind == _EIGHT_BYTES else 4
        else:
            raise Malformed(f"wire type {kind}")
        if not key >> 3:
            raise Malformed("field 0")
        yield key >> 3, kind, begin, value, at


def _unheard() -> None:
    """Nobody wants to know."""


@dataclass(kw_only=True, slots=True)
class RawPlane:
    """A plane without its lines, which `lines` gives one at a time. `whole` is False once a part was broken. `read` is called now and then,
    when what was read of the file is needed no more.
    """

    message: Any
    raw_lines: list[memoryview]
    whole: bool
    end: int  # byte of the file at which it ends
    read: Callable[[], None] = field(default=_unheard)

    def lines(self) -> Iterator[RawLine]:
        """The lines, or what can be read of them."""
        for raw in self.raw_lines:
            yield self._line(raw)

    def _line(self, raw: memoryview) -> RawLine:
        pieces: list[memoryview] = []
        rest = bytearray()
        try:
            for number, kind, begin, _, stop in runs(raw, EVENTS, PIECE_BYTES):
                if number == EVENTS and kind == _LENGTH:
                    pieces.append(raw[begin:stop])
                else:
                    rest += raw[begin:stop]
        except Malformed:
            self.whole = False
        message = self.part("XLine", memoryview(rest))
        return RawLine(plane=self, message=message, raw_pieces=pieces)

    def part(self, name: str, raw: memoryview) -> Any:
        """A message out of some of its fields; of those only that can be read."""
        message = _parsed(message_class(name), raw)
        if message is None:
            self.whole = False
            message = _saved(name, raw)
        return message


@dataclass(kw_only=True, slots=True)
class RawLine:
    """A line without its events: they are what takes memory, and `pieces` makes some at a time."""

    plane: RawPlane
    message: Any
    raw_pieces: list[memoryview]

    def pieces(self) -> Iterator[Any]:
        """The events in the file's order, or those that can be read."""
        for raw in self.raw_pieces:
            events = self.plane.part("XLine", raw).events
            self.plane.read()
            if len(events):
                yield events


def runs(data: memoryview, together: int, most_bytes: int) -> Iterator[tuple[int, int, int, int, int]]:
    """As `fields`, but those of the number `together` that follow each other are one, up to about so many bytes. Raises Malformed."""
    begin, at = -1, 0
    key = together << 3 | _LENGTH
    while at < len(data):
        # The usual case without calls: a key and a length of one byte each, or a length of two.
        if data[at] == key and at + 2 < len(data) and (data[at + 1] < 0x80 or data[at + 2] < 0x80):
            begin = at if begin < 0 else begin
            low = data[at + 1]
            at += 2 + low if low < 0x80 else 3 + (low & 0x7F | data[at + 2] << 7)
            if at - begin >= most_bytes:
                yield together, _LENGTH, begin, begin, at
                begin = -1
            continue
        if begin >= 0:
            yield together, _LENGTH, begin, begin, at
            begin = -1
        found = next(fields(data[at:]), None)
        if found is None:
            return
        number, kind, _, value, end = found
        yield number, kind, at, at + value, at + end
        at += end
    if begin >= 0:
        yield together, _LENGTH, begin, begin, at


def planes(data: memoryview, read: Callable[[], None] = _unheard) -> Iterator[RawPlane]:
    """The planes of a file; `read` as in `RawPlane`. Ends silently where the rest cannot be read."""
    try:
        for number, kind, _, value, end in fields(data):
            if number == PLANES and kind == _LENGTH:
                yield _plane(data[value:end], cut=end > len(data), end=min(end, len(data)), read=read)
    except Malformed:
        return


def _plane(data: memoryview, *, cut: bool, end: int, read: Callable[[], None]) -> RawPlane:
    lines: list[memoryview] = []
    rest = bytearray()
    try:
        for number, kind, begin, value, stop in fields(data):
            if number == LINES and kind == _LENGTH:
                lines.append(data[value:stop])
            else:
                rest += data[begin:stop]
    except Malformed:
        cut = True
    message = _parsed(message_class("XPlane"), memoryview(rest))
    whole = not cut and message is not None
    return RawPlane(message=message or _saved("XPlane", memoryview(rest)), raw_lines=lines, whole=whole, end=end, read=read)


def is_whole(data: memoryview) -> bool:
    """Whether the file consists of whole fields; says nothing of what is inside of them."""
    try:
        return all(end <= len(data) for *_, end in fields(data))
    except Malformed:
        return False


def hostnames(data: memoryview) -> list[str]:
    """The hosts that a file names."""
    try:
        return [
            bytes(data[value:end]).decode("utf-8", "replace")
            for number, _, _, value, end in fields(data)
            if number == HOSTNAMES and end <= len(data)
        ]
    except Malformed:
        return []


def _parsed(kind: Any, data: memoryview) -> Any:
    from google.protobuf.message import DecodeError

    message = kind()
    try:
        message.ParseFromString(bytes(data))
    except DecodeError:
        return None
    return message


def _saved(name: str, data: memoryview) -> Any:
    message = message_class(name)()
    message.ParseFromString(_whole_part(name, data))
    return message


def _whole_part(name: str, data: memoryview) -> bytes:
    """The whole fields of a message, as the bytes of a valid message. A part of an event or name would be a wrong one: it is left out."""
    from google.protobuf.message import DecodeError

    inside = {number: kind for number, kind, _ in MESSAGES[name].values() if isinstance(kind, str)}
    kept = bytearray()
    try:
        for number, kind, begin, value, end in fields(data):
            broken = number in inside and kind == _LENGTH and _parsed(message_class(inside[number]), data[value:end]) is None
            if end <= len(data) and not broken:
                kept += data[begin:end]
    except Malformed:
        pass
    try:
        message_class(name)().ParseFromString(bytes(kept))
    except DecodeError:
        # A known field of the wrong wire type, or the like: nothing of this message can be trusted.
        return b""
    return bytes(kept)


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise Malformed("cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise Malformed("a number of more than ten bytes")
