"""Health: named counters of what was lost, is doubtful or was cut, each with its remedy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["info", "notice", "data_loss", "error"]

SEVERITIES: Final[tuple[Severity, ...]] = ("info", "notice", "data_loss", "error")
# What somebody did to the files of a recording: what is missing then was there once.
DAMAGE: Final = ("missing-records", "missing-notes", "missing-processes", "missing-launcher", "malformed-records", "malformed-notes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """One kind of loss or doubt: how often it happened and what to do about it.

    `count` is the number of times, at least 1; `remedy` is one sentence for the user. Raises ValueError for an unknown
    severity, a count below 1 or an empty name.
    """

    name: str
    severity: Severity
    count: int
    remedy: str

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a health record needs a name")
        if self.severity not in SEVERITIES:
            raise ValueError(f"health {self.name!r}: unknown severity {self.severity!r}, expected one of {', '.join(SEVERITIES)}")
        if self.count < 1:
            raise ValueError(f"health {self.name!r}: count {self.count} says that nothing happened; leave the record out")
