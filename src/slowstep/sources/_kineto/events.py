"""Events as typed objects: only the fields that are kept are ever made into Python values.

Three decoders, each for what the one before refuses: numbers as numbers; timestamps too large for a float kept as text; numbers written as
strings, null, or anything else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

# Stands for "not there" in whole-number columns.
NULL: Final = -(2**63)
RAW: Final = msgspec.Raw(b"")
# Above it a float of microseconds no longer holds nanoseconds: its last bit is worth more than one of them (2 ** -10 us).
EXACT_BELOW_US: Final = float(2**43)

Events = Sequence[Any]
Decode = Callable[[bytes], Events]
BROKEN: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, OverflowError)

_NUMBERS: Final = {
    "external": "External id",
    "external_old": "external id",
    "correlation": "correlation",
    "stream": "stream",
    "device": "device",
    "registers": "registers per thread",
    "bytes": "bytes",
    "sequence": "Sequence number",
    "elements": "In msg nelems",
    "group_size": "Group size",
    "graph_node": "graph node id",
    "memory_device": "Device Id",
    "memory_type": "Device Type",
    "memory_bytes": "Bytes",
    "memory_allocated": "Total Allocated",
    "memory_reserved": "Total Reserved",
}
_RAW: Final = {"grid": "grid", "block": "block", "shapes": "Input Dims", "shapes_old": "Input dims", "types": "Input type"}
_TEXTS: Final = {"stack": "Call stack", "collective": "Collective name", "element_type": "dtype"}
# Written as text by some: the length of a copy on ROCm.
_EITHER: Final = {"size": "size"}
_ANY: Final = {"kind": "kind", "name": "name"}

Scalar = int | float | str | bool | None


def _args(name: str, number: Any, real: Any, text: Any) -> Any:
    fields: list[tuple[str, Any, Any]] = [(field, number, NULL) for field in _NUMBERS]
    fields += [(field, number | str, NULL) for field in _EITHER]
    fields += [("occupancy", real, math.nan)]
    fields += [(field, msgspec.Raw, RAW) for field in _RAW]
    fields += [(field, text, "") for field in _TEXTS]
    fields += [(field, Any, None) for field in _ANY]
    renamed = {**_NUMBERS, **_EITHER, **_RAW, **_TEXTS, **_ANY, "occupancy": "est. achieved occupancy %"}
    return msgspec.defstruct(name, fields, rename=renamed, gc=False)


def _event(name: str, args: Any, real: Any, text: Any, time: Any) -> Any:
    place = int | str | float | None
    fields: list[tuple[str, Any, Any]] = [("ph", str | None, None), ("cat", str | None, None), ("name", text, ""), ("pid", place, None)]
    # Null where none is known: were that unexpected, all events beside it would be decoded the slow way.
    times = [("ts", time, RAW) if time is msgspec.Raw else ("ts", time | None, math.nan), ("dur", real | None, math.nan)]
    fields += [("tid", place, None), *times, ("args", args, None)]
    return msgspec.defstruct(name, fields, gc=False)


ARGS: Final[Any] = _args("Args", int, float, str)
# Whatever stands in a field, it costs no more than this field; what an event is and where it ran must be told in words or numbers.
WIDE_ARGS: Final[Any] = _args("WideArgs", Any, Any, Any)
WIDE: Final[Any] = _event("WideEvent", WIDE_ARGS | list[Any] | Scalar, Any, Any, Any)
NO_ARGS: Final = ARGS()

decode_strict: Final[Decode] = msgspec.json.Decoder(list[_event("Event", ARGS | None, float, str, float)]).decode  # type: ignore[misc]
decode_exact: Final[Decode] = msgspec.json.Decoder(list[_event("ExactEvent", ARGS | None, float, str, msgspec.Raw)]).decode  # type: ignore[misc]
decode_wide: Final[Decode] = msgspec.json.Decoder(list[WIDE]).decode
DECODERS: Final = (decode_strict, decode_exact, decode_wide)

_NOT_A_NUMBER = re.compile(rb"([:\[,]\s*)[-+]?(?:nan|inf|infinity)(?:\(\w*\))?(?=\s*[,}\]])", re.IGNORECASE)
_NO_VALUE = re.compile(rb"(:\s*)(?=[,}])")
_CONTROL = re.compile(rb"[\x00-\x1f]")
# A surrogate stands in a pair, or is no character: it is then shown as it was written, its backslash escaped.
_PAIR = rb"u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_CHARACTER = rb"u(?![dD][89a-fA-F])[0-9a-fA-F]{4}"
_ESCAPE = re.compile(rb'\\(?:\\|["/bfnrt]|' + _PAIR + rb"|" + _CHARACTER + rb")|\\")
_REPLACEMENT = "\ufffd"


def repaired(text: bytes) -> tuple[bytes, int]:
    """A text that is no JSON, without what profilers are known to write wrongly: nan and inf, missing values, line feeds, single
    backslashes and lone surrogates in names, bytes that are no UTF-8. With it the number of places that were changed."""
    unicode = text.decode("utf-8", "replace")
    places = unicode.count(_REPLACEMENT) - text.count(_REPLACEMENT.encode())
    # Line feeds stand between events too, so that those in names cannot be counted.
    text = _CONTROL.sub(b" ", unicode.encode())
    for pattern in (_NOT_A_NUMBER, _NO_VALUE):
        text, found = pattern.subn(rb"\1null", text)
        places += found
    wrong = 0

    def escape(match: re.Match[bytes]) -> bytes:
        nonlocal wrong
        wrong += len(match.group()) == 1
        return match.group() if len(match.group()) > 1 else b"\\\\"

    text = _ESCAPE.sub(escape, text)
    return text, places + wrong
