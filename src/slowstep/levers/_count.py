"""The number that a lever takes."""

from __future__ import annotations

from slowstep.record.experiment.lever import LeverSpec


def count_of(spec: LeverSpec, *, least: int, hint: str = "") -> int:
    """The whole number of a specification. Raises ValueError, with what was expected and a hint, for anything else."""
    if spec.value is None or not spec.value.isdecimal() or int(spec.value) < least:
        given = "nothing" if spec.value is None else repr(spec.value)
        raise ValueError(f"it takes a whole number of at least {least}, not {given}{hint}")
    return int(spec.value)
