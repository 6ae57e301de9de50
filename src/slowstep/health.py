"""Health: named counters of what was lost, is doubtful or was cut, each with its remedy. The words come last.

A kind is declared once, as a constant beside the code that finds it, and called with how often it was met and what its template names:

    TORN_RECORDS = HealthKind("torn-records", "notice", "the process was ended in the middle of writing them; all others are whole")
    ...
    yield TORN_RECORDS(lost.torn)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from slowstep.reasons import Reason, Value, Wording

Severity = Literal["info", "notice", "data_loss", "error"]

SEVERITIES: Final[tuple[Severity, ...]] = ("info", "notice", "data_loss", "error")
# What somebody did to the files of a recording: what is missing then was there once.
DAMAGE: Final = ("missing-records", "missing-notes", "missing-processes", "missing-launcher", "malformed-records", "malformed-notes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """One kind of loss or doubt: how often it happened and what to do about it.

    `count` is the number of times, at least 1; `remedy` is one sentence for the user, as data. Raises ValueError for an unknown
    severity, a count below 1 or an empty name.
    """

    severity: Severity
    count: int
    remedy: Reason

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a health record needs a name")
        if self.severity not in SEVERITIES:
            raise ValueError(f"health {self.name!r}: unknown severity {self.severity!r}, expected one of {', '.join(SEVERITIES)}")
        if self.count < 1:
            raise ValueError(f"health {self.name!r}: count {self.count} says that nothing happened; leave the record out")

    @property
    def name(self) -> str:
        """The code of its remedy."""
        return self.remedy.code


@dataclass(frozen=True, slots=True)
class HealthKind:
    """A kind of loss or doubt: its name, how grave it is, and the template of what is said of it, as that of a `Wording`."""

    name: str
    severity: Severity
    template: str

    def __call__(self, count: int, **values: Value) -> Health:
        """A record of what was met so often. Raises TypeError as a `Wording` does, and ValueError as `Health`."""
        return Health(severity=self.severity, count=count, remedy=Wording(self.name, self.template)(**values))

    def of(self, which: str) -> HealthKind:
        """The same of one of several things, each counted by itself."""
        return replace(self, name=f"{self.name}:{which}")
