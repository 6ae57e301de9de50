"""The number that a lever takes."""

from __future__ import annotations

from slowstep.record.lever import Spec


def count_of(spec: Spec, *, least: int) -> int:
    """The whole number of a specification. Raises ValueError, with what was expected, for anything else."""
    if spec.value is None or not spec.value.isdecimal() or int(spec.value) < least:
        given = "nothing" if spec.value is None else repr(spec.value)
        raise ValueError(f"{spec.name}=N takes a whole number of at least {least}, not {given}")
    return int(spec.value)
