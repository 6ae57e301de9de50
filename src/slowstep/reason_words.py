"""The words of reasons: each is a template with values, and the sentence is made here and read by nobody again.

How a value is written stands behind its name in the template: `share`, `duration` (of ns), `ms` (of ns, as a bare number), `rough_ms` (the
same with two digits), `bytes`,
`number`, `ratio`, `times` (of a factor), `stage` (of its name), `count batch|batches` ("3 batches"; without a plural an s is added),
`plural is|are` (by the number alone), or what Python takes (`.2f`, `,`). Without it, a name or another reason stands as it is; None is
left out.
"""

from __future__ import annotations

from collections.abc import Callable
from string import Formatter
from typing import Any, Final

from slowstep.reasons import OF_STAGE, OWN_WORDS, Reason, Value
from slowstep.stages import stage_in_words
from slowstep.units import format_bytes, format_count, format_duration, format_number, format_ratio, format_share, format_times

_WRITTEN: Final[dict[str, Callable[[Any], str]]] = {
    "share": format_share,
    "duration": format_duration,
    "ms": lambda ns: f"{ns / 1e6:.1f}",
    "rough_ms": lambda ns: f"{ns / 1e6:.2g}" if ns < 1e7 else f"{ns / 1e6:,.0f}",
    "bytes": format_bytes,
    "number": format_number,
    "ratio": format_ratio,
    "times": format_times,
    OF_STAGE: stage_in_words,
}


def sentence(reason: Reason) -> str:
    """A reason in words."""
    pieces = Formatter().parse(reason.wording.template)
    return "".join(literal + ("" if name is None else _written(reason.values[name], how or "")) for literal, name, how, _ in pieces)


def opens_with_name(reason: Reason) -> bool:
    """Whether its words begin with a name, or with what somebody else has written: that takes no capital."""
    literal, name, how, _ = next(iter(Formatter().parse(reason.wording.template)))
    if literal or name is None or reason.code == OWN_WORDS.code:
        return False
    value = reason.values[name]
    return opens_with_name(value) if isinstance(value, Reason) else not how


def _written(value: Value, how: str) -> str:
    if isinstance(value, Reason):
        return sentence(value)
    if not how:
        return "" if value is None else str(value)
    if how in _WRITTEN:
        return _WRITTEN[how](value)
    kind, _, nouns = how.partition(" ")
    one, _, many = nouns.partition("|")
    count: Any = value
    if kind == "count":
        return format_count(count, one, many or None)
    return (one if count == 1 else many) if kind == "plural" else format(count, how)
