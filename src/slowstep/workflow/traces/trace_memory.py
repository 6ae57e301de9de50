"""How much of a trace fits into the memory that the user allows, and whether that was kept."""

from __future__ import annotations

from typing import Final

from slowstep.health import Health, HealthKind
from slowstep.reasons import Wording
from slowstep.record.system.kernel_files import read_size
from slowstep.units import MIB

# What an analysis takes of a trace of next to no events (the interpreter, its libraries, the code), and what of each event: above what was
# measured with --memory, 200M to 300M, of four traces of 108 to 315 MB of JSON (docs/architecture.md).
FLOOR_BYTES: Final = int(180 * MIB)
EVENT_BYTES: Final = 290

MEMORY_LIMIT_EXCEEDED: Final = HealthKind(
    "memory-limit-exceeded", "notice", "{held:bytes} were held, {allowed:bytes} were allowed; {remedy}"
)
ALLOW_MORE: Final = Wording("allow-more", "{least:bytes} are needed for the smallest trace: allow more")
ALLOW_MORE_OR_PROFILE_LESS: Final = Wording("allow-more-or-profile-less", "allow more, or profile fewer steps")


def events_within(limit_bytes: int | None) -> int | None:
    """How many events can be analyzed in that much memory; None: any number."""
    return None if limit_bytes is None else max(limit_bytes - FLOOR_BYTES, 0) // EVENT_BYTES


def exceeded(limit_bytes: int | None) -> list[Health]:
    """Whether this process has held more memory than it was allowed."""
    held = read_size("/proc/self/status", "VmHWM:")
    if limit_bytes is None or held is None or held <= limit_bytes:
        return []
    remedy = ALLOW_MORE(least=FLOOR_BYTES) if limit_bytes < FLOOR_BYTES else ALLOW_MORE_OR_PROFILE_LESS()
    return [MEMORY_LIMIT_EXCEEDED(1, held=held, allowed=limit_bytes, remedy=remedy)]
