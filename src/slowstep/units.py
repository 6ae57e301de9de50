"""Numbers as people read them, and durations as people type them. What is not known prints as "not measured"."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

UNKNOWN: Final = "not measured"
MIB: Final = 2.0**20
GIB: Final = 2.0**30
# Ranks that a sentence names.
RANKS_NAMED: Final = 8

# An interval that a tenth would show as one number, or nearly.
_NARROW: Final = 0.25
_MOST_RATIO_DIGITS: Final = 2
_NS_PER_UNIT: Final = (("h", 3_600_000_000_000), ("min", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000))
_BYTE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SECONDS_PER_UNIT: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION: Final = re.compile(r"(?P<number>\d+(?:\.\d*)?|\.\d+)\s*(?P<unit>[a-z]*)")


def format_number(value: float | None) -> str:
    """A number with three significant digits, thousands apart: "0.052", "12.3", "1,840". Counts (int) are not rounded."""
    if value is None:
        return UNKNOWN
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value) or value == 0 or not 1e-3 <= abs(value) < 1e15:
        return f"{value:.3g}"
    magnitude = math.floor(math.log10(float(f"{abs(value):.2e}")))
    return f"{value:,.{max(0, 2 - magnitude)}f}"


def format_count(count: int, noun: str, plural: str | None = None) -> str:
    """Things that are counted, by a noun whose plural takes an s unless another is given: "1 worker", "1,200 steps", "2 copies"."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def format_ranks(numbers: Sequence[int], count: int | None = None) -> str:
    """Ranks by their numbers, the first of them where there are many: "rank 3", "ranks 1, 2", "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 56 more".

    `count` is how many there are, where `numbers` has the first of them only.
    """
    more = (len(numbers) if count is None else count) - min(len(numbers), RANKS_NAMED)
    text = ", ".join(map(str, numbers[:RANKS_NAMED])) + (f" and {more:,} more" if more else "")
    return f"rank {text}" if len(numbers) == 1 and not more else f"ranks {text}"


def format_duration(duration_ns: float | None) -> str:
    """Nanoseconds as "850 ns", "12.3 ms", "1.50 s", "2.0 min" or "1.5 h"."""
    if duration_ns is None:
        return UNKNOWN
    for unit, ns in _NS_PER_UNIT:
        if abs(duration_ns) >= ns * 0.9995:
            value = duration_ns / ns
            return f"{value:.1f} {unit}" if unit in ("min", "h") else f"{format_number(value)} {unit}"
    return f"{duration_ns:.0f} ns"


def type_duration(duration_ns: float) -> str:
    """A duration to type, rounded up: "20s", "4m"."""
    seconds = duration_ns / 1e9
    return f"{max(math.ceil(seconds / 10), 1) * 10}s" if seconds <= 90 else f"{math.ceil(seconds / 60)}m"


def format_about(seconds: float) -> str:
    """A time that is foreseen, no more exact than that: "35 s", "2 min", "2.5 min"."""
    if seconds < 97.5:
        return f"{max(round(seconds / 5) * 5, 1)} s"
    return f"{round(seconds / 30) / 2:g} min"


def format_number_in_unit_of(duration_ns: float, beside_ns: float) -> str:
    """Nanoseconds as a bare number, in the unit in which another duration stands before it: "(p05 690)" beside "705 us"."""
    unit = next((ns for _, ns in _NS_PER_UNIT if abs(beside_ns) >= ns * 0.9995), 1)
    return format_number(duration_ns / unit)


def format_ratio(value: float | None) -> str:
    """A factor: "1.8x", "1.05x" where a tenth would hide it, "12x"."""
    return UNKNOWN if value is None else f"{value:,.{_ratio_digits(value)}f}x"


def format_times(value: float) -> str:
    """A factor in a sentence: "2.3 times", "46 times"."""
    return f"{value:,.{_ratio_digits(value)}f} times"


def format_ratio_interval(value: float, low: float, high: float | None) -> str:
    """A factor with its interval, all as precise as the factor: "1.8x (1.6-2.0)"; more precise where that would hide the interval.

    Without an upper end: "1.8x (1.6 or more)".
    """
    factor, least, most = _ratio_ends(value, low, high)
    return f"{factor}x ({least} or more)" if most is None else f"{factor}x ({least}-{most})"


def format_ratio_between(value: float, low: float, high: float | None, *, level: str, also: str = "") -> str:
    """The same in words: "1.8x (90 % interval 1.6 to 2.0)"; what there is to say `also` stands in the brackets, too."""
    factor, least, most = _ratio_ends(value, low, high)
    between = f"{least} or more" if most is None else f"{level} interval {least} to {most}"
    return f"{factor}x ({'; '.join(filter(None, (between, also)))})"


def _ratio_ends(value: float, low: float, high: float | None) -> tuple[str, str, str | None]:
    digits = _ratio_digits(value)
    if digits == 1 and high is not None and high - low < _NARROW:
        digits = 2
    return f"{value:,.{digits}f}", _ratio_end(low, digits), None if high is None else _ratio_end(high, digits)


def _ratio_end(end: float, digits: int) -> str:
    """An end of an interval. It is not rounded to one or across it where two digits tell it from one: a gain or none is read there."""
    digits = digits if _ratio_digits(end) else 0
    while digits < _MOST_RATIO_DIGITS and end != 1 and (float(f"{end:.{digits}f}") - 1) * (end - 1) <= 0:
        digits += 1
    return f"{end:,.{digits}f}"


def _ratio_digits(value: float) -> int:
    if value >= 9.95:
        return 0
    return 2 if value < 1.5 else 1


def format_share(share: float | None) -> str:
    """A share of one as a percentage: "43 %", "0.4 %" below one, "<0.1 %" for next to nothing."""
    if share is None:
        return UNKNOWN
    percent = share * 100
    if percent == 0:
        return "0 %"
    if 0 < percent < 0.05:
        return "<0.1 %"
    return f"{percent:.1f} %" if abs(percent) < 0.95 else f"{percent:.0f} %"


def format_bytes(size_bytes: float | None) -> str:
    """Bytes in powers of 1024: "512 B", "12.3 MiB"."""
    if size_bytes is None:
        return UNKNOWN
    value, unit = float(size_bytes), 0
    while abs(value) >= 1023.5 and unit < len(_BYTE_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} B" if unit == 0 else f"{format_number(value)} {_BYTE_UNITS[unit]}"


def format_rate(per_s: float | None, what: str) -> str:
    """So many of something a second: "1,840 samples/s"."""
    return UNKNOWN if per_s is None else f"{format_number(per_s)} {what}/s"


def parse_duration(text: str) -> float:
    """Seconds from "60s", "2m", "1.5h", "500ms" or a bare number of seconds.

    Raises ValueError, with a message for the user, where the text is no duration above zero.
    """
    match = _DURATION.fullmatch(text.strip().lower())
    scale = _SECONDS_PER_UNIT.get(match["unit"]) if match else None
    seconds = float(match["number"]) * scale if match and scale is not None else 0.0
    if not 0.0 < seconds < math.inf:
        raise ValueError(f"{text!r} is no duration above zero. Give one with its unit, such as 60s, 2m or 1.5h; alone it is seconds.")
    return seconds
