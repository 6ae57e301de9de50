"""What a recorder says of what it lost. Readers know some of it by its name."""

from __future__ import annotations

from typing import Final

from slowstep.health import HealthKind

RECORDER_FAULT: Final = HealthKind(
    "recorder-fault", "error", "report it as a bug of slowstep: {error} at {where}; what it concerns is missing"
)
LAUNCHER_FAULT: Final = HealthKind("launcher-fault", "error", "A fault of slowstep, please report it ({error}); readings are missing.")
LATE_STACKS: Final = HealthKind(
    "late-stacks", "info", "the machine was busy, or code held the GIL: shares taken from stacks are less exact"
)
LOST_EVENTS: Final = HealthKind(
    "lost-events", "data_loss", "a signal handler came in between while they were written; nothing has to be done"
)
DISK_FULL: Final = HealthKind(
    "disk-full",
    "data_loss",
    "the recording of this process ended early ({error}): free some space, or record into another folder with --out",
)
LAUNCHER_RECORDS_LOST: Final = HealthKind("launcher-records-lost", "data_loss", "The disk was full: make room and record again.")
