"""What is not in every step, in at most two lines, and only where it matters: a long start-up, and what recurs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slowstep.report.canvas import NBSP
from slowstep.units import format_duration, format_number, format_share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slowstep.document.run_rows import Periodic, Run

# A start-up under this is what imports take; and beside a long training it is forgotten.
_STARTUP_S: Final = 10.0
_STARTUP_SHARE: Final = 0.10
_STARTUP_PARTS: Final = 2
# A finding must claim as much.
_PERIODIC_SHARE: Final = 0.03
_PERIODIC_SHOWN: Final = 2


def over_time_lines(run: Run) -> Iterator[tuple[str, str]]:
    """Label and text of each line."""
    parts = run.get("startup") or []
    whole_s = sum(part["s"] for part in parts)
    if whole_s >= _STARTUP_S and whole_s >= _STARTUP_SHARE * (run["duration_s"] or whole_s):
        longest = sorted(parts, key=lambda part: -part["s"])[:_STARTUP_PARTS]
        named = ", ".join(f"{part['name']} {_duration(part['s'] * 1e9)}" for part in longest)
        yield "Start-up:", f"{_duration(whole_s * 1e9)} ({named})"
    events = [row for row in run.get("periodic", []) if row["share"] >= _PERIODIC_SHARE][:_PERIODIC_SHOWN]
    if events:
        recurs = any(row["every_steps"] is not None for row in events)
        yield "Recurring:" if recurs else "Once:", "; ".join(_event(row, beside_recurring=recurs) for row in events)


def _event(row: Periodic, *, beside_recurring: bool = False) -> str:
    every = row["every_steps"]
    duration, share = _duration(row["ms"] * 1e6), format_share(row["share"])
    if every is None:
        return f"{row['name']}{' once' if beside_recurring else ''}, {duration} ({share})"
    return f"{row['name']} every {format_number(int(every) if float(every).is_integer() else every)} steps, {duration} each ({share})"


def _duration(ns: float) -> str:
    return format_duration(ns).replace(" ", NBSP)
