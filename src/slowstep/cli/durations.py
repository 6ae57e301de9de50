"""Durations on the command line."""

from __future__ import annotations

from slowstep import units
from slowstep.errors import BadUsage


def parse_duration_option(text: str, option: str) -> float:
    """Seconds from an option's "60s", "2m" or "1.5h". Raises BadUsage, which names the option, where that is no duration above zero."""
    try:
        return units.parse_duration(text)
    except ValueError as error:
        raise BadUsage(f"{option}: {error}") from None
