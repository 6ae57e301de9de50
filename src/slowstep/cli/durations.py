"""Durations on the command line."""

from __future__ import annotations

from slowstep import units
from slowstep.errors import BadUsage


def parse_duration(text: str) -> float:
    """Seconds from "60s", "2m" or "1.5h". Raises BadUsage where the text is no duration above zero."""
    try:
        return units.parse_duration(text)
    except ValueError as error:
        raise BadUsage(str(error)) from None
