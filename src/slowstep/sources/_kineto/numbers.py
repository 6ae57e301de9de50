"""Fields of many decoded events as arrays; what is not there, or no number, is NULL or nan."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from slowstep.sources._kineto.events import NO_ARGS, NULL

Ints = NDArray[np.int64]
# 1970 to 2112 in microseconds; what is beyond is no time, and would not fit into nanoseconds.
_LATEST_US: Final = 2.0**52
_NO_TIME: Final = 2**62
_DECIMALS: Final = 3
# Of a number that fits into 63 bits, unless it begins with a nine.
_MOST_DIGITS: Final = 19


def args_of(events: list[Any]) -> list[Any]:
    return [event.args or NO_ARGS for event in events]


def numbers(args: Sequence[Any], field: str, instead: str | None = None) -> Ints:
    """A whole-number field; NULL where it is not there or no whole number."""
    values = _whole(list(map(attrgetter(field), args)))
    if instead is not None and (values == NULL).any():
        values = np.where(values == NULL, _whole(list(map(attrgetter(instead), args))), values)
    return values


def _whole(values: list[Any]) -> Ints:
    return _array(values, np.int64, integer)


def _array(values: list[Any], kind: Any, one: Callable[[Any], Any]) -> NDArray[Any]:
    """All at once where they are numbers, else one by one; lists of one length would become a table."""
    try:
        array = np.array(values, dtype=kind)
    except (TypeError, ValueError, OverflowError):
        array = None
    return array if array is not None and array.ndim == 1 else np.array([one(value) for value in values], dtype=kind)


def integer(value: Any) -> int:
    """A whole number, also one that stands as text; NULL for anything else."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return NULL
    return number if -(2**63) <= number < 2**63 else NULL


def reals(things: Sequence[Any], field: str) -> NDArray[np.float64]:
    return _array(list(map(attrgetter(field), things)), np.float64, _real)


def _real(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def place_numbers(events: list[Any], field: str, otherwise: Ints) -> Ints:
    """Device or stream from where an event stands: a number, or words that end in one (`stream 7`); 0 where neither."""
    if not (otherwise == NULL).any():
        return otherwise
    return np.array([number_in(getattr(event, field)) or 0 for event in events], dtype=np.int64)


def number_in(place: Any) -> int | None:
    """The number that a process or thread id is, or ends with; None where there is none."""
    if isinstance(place, str):
        place = place.rpartition(" ")[2]
    number = integer(place)
    return None if number == NULL else number


def times_of(events: list[Any]) -> tuple[Ints, NDArray[np.bool_]]:
    """When events began, in nanoseconds, and which of them say it."""
    if events and type(events[0].ts) is msgspec.Raw:
        return _exact_times([event.ts for event in events])
    return _float_times(reals(events, "ts"))


def _float_times(times: NDArray[np.float64]) -> tuple[Ints, NDArray[np.bool_]]:
    known = np.abs(times) < _LATEST_US
    times = np.where(known, times, 0)
    whole = np.floor(times)
    return whole.astype(np.int64) * 1000 + np.rint((times - whole) * 1000).astype(np.int64), known


def _exact_times(texts: list[msgspec.Raw]) -> tuple[Ints, NDArray[np.bool_]]:
    """Microseconds with their decimals as they are written, to nanoseconds: no float in between, which would round to 250 ns."""
    written = [bytes(text) for text in texts]
    times = _aligned(written)
    if times is None:
        try:
            times = np.array([_nanoseconds(text) for text in written], dtype=np.int64)
        except (ValueError, OverflowError):
            times = np.array([_nanoseconds_of_any(text) for text in written], dtype=np.int64)
    known = np.abs(times) < _LATEST_US * 1000
    return np.where(known, times, 0), known


def _aligned(written: list[bytes]) -> Ints | None:
    """Times that are all written with as many digits, three of them decimals, as times since 1970 are; None where they are not."""
    table = np.array(written)
    width = table.itemsize
    if not _DECIMALS + 2 <= width <= _MOST_DIGITS + 1:
        return None
    digits = table.view(np.uint8).reshape(len(table), width)
    point = width - 1 - _DECIMALS
    if (digits[:, point] != ord(".")).any():
        return None
    # Whatever is no digit, and the zeros after a shorter text, wraps around to more than nine.
    digits = np.delete(digits, point, axis=1) - np.uint8(ord("0"))
    if (digits > 9).any() or (digits[:, 0] == 9).any():
        return None
    return digits.astype(np.int64) @ 10 ** np.arange(width - 2, -1, -1, dtype=np.int64)


def _nanoseconds(text: bytes) -> int:
    if b"e" in text or b"E" in text:
        raise ValueError("an exponent")
    whole, _, part = text.partition(b".")
    # Without digits before the point, as where no time is there, the decimals alone would pass for a time of 0.
    return int(whole + part[:3].ljust(3, b"0")) if whole else _NO_TIME


def _nanoseconds_of_any(text: bytes) -> int:
    """Of null, of a number written with an exponent, or of what is no number."""
    try:
        time = _nanoseconds(text)
    except ValueError:
        micros = _real(text)
        return int(micros * 1000) if abs(micros) < _LATEST_US else _NO_TIME
    return time if abs(time) < _NO_TIME else _NO_TIME


def lengths_of(events: list[Any]) -> tuple[Ints, NDArray[np.bool_]]:
    lengths = reals(events, "dur")
    known = np.abs(lengths) < _LATEST_US
    return np.rint(np.where(known, lengths, 0) * 1000).astype(np.int64), known
