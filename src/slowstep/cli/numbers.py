"""Whole numbers on the command line."""

from __future__ import annotations

from collections.abc import Callable

from slowstep.errors import BadUsage


def whole_number(option: str, *, least: int, most: int | None = None) -> Callable[[str | int], int]:
    """What reads an option's number. It raises BadUsage, which names the option and what was expected."""
    expected = f"{least} or more" if most is None else f"from {least} to {most}"

    def read(text: str | int) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least or (most is not None and number > most):
            raise BadUsage(f"{option} {text}: give a whole number, {expected}.")
        return number

    return read
