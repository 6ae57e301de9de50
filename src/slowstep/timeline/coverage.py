"""How much a source can see: what it states of each kind of thing, and of which steps that holds."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class CoverageLevel(StrEnum):
    """How what is of one kind is known."""

    EXACT = "exact"  # all of it, with its begin and end: what has no row was not there
    SAMPLED = "sampled"  # as often as it was looked at
    NONE = "none"


class KindCoverage(NamedTuple):
    """What a source states of a kind."""

    known: CoverageLevel
    steps: str = "every step"


UNSEEN: Final = KindCoverage(CoverageLevel.NONE, "no step")

KINDS: Final = {
    "steps": "where each begins and ends",
    "host": "what named work its threads did",
    "functions": "which Python functions ran",
    "batches": "what making each took",
    "device": "when it worked, and on what",
    "dispatches": "which call of the host's gave it that work",
    "allocations": "of memory, by the framework",
    "machine": "what else used it",
}
# Of what states nothing.
NOTHING: Final = dict.fromkeys(KINDS, UNSEEN)
