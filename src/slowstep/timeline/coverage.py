"""How much is seen: what of each kind, and of which steps. A source states it at most, and of each timeline that it reads what that has."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class CoverageLevel(StrEnum):
    """How what is of one kind is known."""

    EXACT = "exact"  # all of it, with its begin and end: what has no row was not there
    SAMPLED = "sampled"  # as often as it was looked at
    NONE = "none"


class CoveredSteps(StrEnum):
    """The steps of which it is known."""

    ALL = "all"
    ONE_IN_SEVERAL = "one_in_several"  # of a recording that reached its size limit; the others have only their number
    TRACED = "traced"
    NONE = "none"


class ShownWith(StrEnum):
    """What a profiler was asked for, or what is there, where it shows something: else its traces have nothing of that."""

    STACKS = "with_stack"
    MEMORY = "profile_memory"
    PYTHON_TRACER = "python_tracer_level=1"
    NVTX_RANGE = "nvtx_range"
    ACCELERATOR = "accelerator"
    ASKED_DEVICE = "asked_device"


@dataclass(frozen=True, slots=True)
class KindCoverage:
    """What is stated of a kind: by a source what it can see at most, and `shown_with` what; of a timeline, what it has."""

    known: CoverageLevel
    steps: CoveredSteps = CoveredSteps.ALL
    one_in: float | None = None  # of ONE_IN_SEVERAL: how many steps there were for each that is known
    shown_with: ShownWith | None = None


UNSEEN: Final = KindCoverage(CoverageLevel.NONE, CoveredSteps.NONE)
TRACED: Final = KindCoverage(CoverageLevel.EXACT, CoveredSteps.TRACED)

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
