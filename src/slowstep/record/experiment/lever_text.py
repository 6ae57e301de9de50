"""Levers as they are written on a command line and in reports; `str` of a specification writes it."""

from __future__ import annotations

from slowstep.errors import BadUsage
from slowstep.record.experiment.lever import LeverSpec

_EVERY = "every="


def parse_spec(text: str) -> LeverSpec:
    """`NAME[=VALUE][:every=K]` as a Spec. Raises BadUsage for a K that is no whole number of at least 2."""
    head, _, tail = text.rpartition(":")
    every = 1
    if head and tail.startswith(_EVERY):
        count = tail.removeprefix(_EVERY)
        if not count.isdecimal() or int(count) < 2:
            raise BadUsage(f"lever {text!r}: every=K takes a whole number of at least 2, such as {head}:every=10.")
        text, every = head, int(count)
    name, _, value = text.partition("=")
    return LeverSpec(name=name, value=value or None, every=every)
