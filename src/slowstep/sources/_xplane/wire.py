"""Takes an XPlane file apart into planes, and saves what can be saved of one that was cut off or is malformed.

The wire format is that of protobuf.dev, "Encoding": fields of a key (number and wire type) and a value; messages inside messages are
values with a length before them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from slowstep.sources._xplane.schema import MESSAGES, message_class

_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
PLANES, HOSTNAMES = MESSAGES["XSpace"]["planes"][0], MESSAGES["XSpace"]["hostnames"][0]
LINES: Final = MESSAGES["XPlane"]["lines"][0]


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


@dataclass(kw_only=True, slots=True)
class RawPlane:
    """A plane without its lines, which `lines` makes one at a time: they are what takes memory. `whole` is False once a part was broken."""

    message: Any
    raw_lines: list[memoryview]
    whole: bool
    end: int  # byte of the file at which it ends

    def lines(self) -> Iterator[Any]:
        """The lines, or what can be read of them."""
        for raw in self.raw_lines:
            line = _parsed(message_class("XLine"), raw)
            if line is None:
                self.whole = False
                line = _saved("XLine", raw)
            yield line


def planes(data: memoryview) -> Iterator[RawPlane]:
    """The planes of a file. Ends silently where the rest cannot be read."""
    try:
        for number, kind, _, value, end in fields(data):
            if number == PLANES and kind == _LENGTH:
                yield _plane(data[value:end], cut=end > len(data), end=min(end, len(data)))
    except Malformed:
        return


def _plane(data: memoryview, *, cut: bool, end: int) -> RawPlane:
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
    return RawPlane(message=message or _saved("XPlane", memoryview(rest)), raw_lines=lines, whole=whole, end=end)


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
