"""The ledger of a report as plain data: what each stage takes, and its parts."""

from __future__ import annotations

import math
from typing import Final, TypedDict

# Shares may have been rounded on their way into a file.
SUM_TOLERANCE: Final = 1e-4


class PlaceRow(TypedDict):
    """Where a part is in the user's code; `last_line` where it is the lines of a loop, `function` the one that it is in."""

    file: str
    line: int | None
    last_line: int | None
    function: str | None


class Bounds(TypedDict, total=False):
    """The least and the most of the window that something takes, where it is not known whether the device worked meanwhile."""

    share_low: float
    share_high: float


class PartRow(Bounds):
    """A named piece of a stage: its share of the window (0 to 1), not of the stage.

    `name` is its words, for people; `kind` what it is, `subject` the user's or a framework's own name, where there is one.
    """

    name: str
    kind: str
    subject: str | None
    place: PlaceRow | None
    share: float | None
    ms_per_step: float | None


class LedgerRow(Bounds):
    """One stage's account. A null share says that the stage could not be seen."""

    stage: str
    share: float | None
    ms_per_step: float | None
    parts: list[PartRow]


def unseen_row(stage: str) -> LedgerRow:
    """The account of a stage that nothing was seen of."""
    return {"stage": stage, "share": None, "ms_per_step": None, "parts": []}


def unbalanced(ledger: list[LedgerRow]) -> list[str]:
    """The accounts of a ledger that do not add up: shares that are not 1 in all, parts that exceed their stage."""
    faults = []
    shares = [row["share"] for row in ledger if row["share"] is not None]
    if shares and not math.isclose(sum(shares), 1.0, abs_tol=SUM_TOLERANCE):
        faults.append(f"the ledger's shares sum to {sum(shares):.6f}, not 1")
    for row in ledger:
        parts = sum(part["share"] or 0.0 for part in row["parts"])
        if parts > (row["share"] or 0.0) + SUM_TOLERANCE:
            faults.append(f"the parts of {row['stage']} sum to {parts:.6f}, more than its {row['share']}")
    return faults
