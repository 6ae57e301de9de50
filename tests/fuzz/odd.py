"""Values that a field may hold in a damaged file: of another type, empty, nested, or beyond what a machine's numbers hold."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

SCALARS: tuple[Any, ...] = (
    *(None, True, False),
    *("", "text", "12", "-3", "1e400", "0x10", "NaN", " 7 ", "\u202eevil\u2066", "\ud800", "\x1b[31m", "nul\x00", "a" * 5000, "line\nline"),
    *(
        0,
        1,
        -1,
        2,
        255,
        2**31 - 1,
        2**31,
        -(2**31),
        2**32,
        2**53 + 1,
        2**62,
        2**63 - 1,
        2**63,
        -(2**63),
        -(2**63) - 1,
        2**64,
        10**30,
        10**400,
    ),
    *(0.0, -0.0, 0.5, -1.5, 1e-320, 1e18, 1e19, 1e308, float("nan"), float("inf"), float("-inf")),
)
NESTED: tuple[Any, ...] = (
    *([], {}, [[]], [{}], [None], [1], [-1], [2**63], [1.5], ["a"], [[1, "a"]], [[2**40, 2**40]], [True, False]),
    *({"a": 1}, {"": None}, {"name": "x"}, {"id": 2**70}, [["a", "b", 1, 2]], ["a", "b", "c"], [[[[[[[[[[1]]]]]]]]]]),
)
INT64 = (0, 1, -1, 2, 7, 100, 2**31 - 1, 2**31, 2**32, 2**53, 10**18, 2**62, 2**63 - 1, -(2**31), -(10**12), -(2**62), -(2**63))


def odd(rng: random.Random, instead_of: Any = None) -> Any:
    """Any value; often one that is near what it stands instead of."""
    near: list[Any] = []
    if isinstance(instead_of, (int, float)):
        near = [str(instead_of), -instead_of, 0, _as_float(instead_of), [instead_of], instead_of * 1000, instead_of + 1]
    elif isinstance(instead_of, str):
        near = [instead_of[: len(instead_of) // 2], instead_of * 2, [instead_of], instead_of.swapcase(), ""]
    elif isinstance(instead_of, list):
        near = [instead_of[:-1], instead_of + instead_of, instead_of[::-1], dict.fromkeys(map(str, instead_of)), [instead_of]]
    elif isinstance(instead_of, dict):
        near = [list(instead_of), list(instead_of.values()), {}, dict.fromkeys(instead_of)]
    kind = rng.random()
    if near and kind < 0.3:
        return rng.choice(near)
    return rng.choice(SCALARS if kind < 0.8 else NESTED)


def _as_float(number: float) -> float:
    """The nearest float: of an integer of hundreds of digits, which an earlier change may have put here, infinity."""
    try:
        return float(number)
    except OverflowError:
        return float("inf")


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Where values stand inside of a list or dict, at any depth: what holds each, and its key or index there."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(inside):
        yield value, key
        yield from places(inner)


def put_odd(holder: Any, key: Any, rng: random.Random) -> str:
    """Replace one value by another; says which."""
    before = holder[key]
    holder[key] = odd(rng, before)
    return f"{key!r}: {shown(before)} -> {shown(holder[key])}"


def shown(value: Any) -> str:
    """A value in few letters."""
    text = repr(value) if not (isinstance(value, int) and abs(value) > 10**40) else "an integer of hundreds of digits"
    return text if len(text) <= 60 else text[:57] + "..."


def scribbled(raw: bytes, rng: random.Random) -> bytes:
    """The bytes with a few of them replaced, taken out or put in."""
    changed = bytearray(raw)
    for _ in range(rng.choice((1, 1, 3, 10, 100))):
        at = rng.randrange(len(changed) + 1)
        changed[at : at + rng.choice((0, 1, 1, 1, 4, 200))] = rng.randbytes(rng.choice((0, 1, 1, 1, 4)))
    return bytes(changed)


def cut(raw: bytes, rng: random.Random) -> bytes:
    """The beginning of the bytes."""
    return raw[: rng.randrange(len(raw) + 1)]
