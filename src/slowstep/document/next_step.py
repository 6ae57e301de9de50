"""What to do next, as a report names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slowstep.document.report import Report


@dataclass(frozen=True, kw_only=True, slots=True)
class NextStep:
    """`first` is to be done before `command` is typed, or is all there is to do; None where nothing is. `why` is what the command tells."""

    command: str | None = None
    first: str | None = None
    why: str | None = None


def explain(name: str) -> str:
    """The command that tells what a rule or a lever is about."""
    return f"slowstep explain {name}"


def next_command(report: Report) -> str | None:
    """What to type next; None where nothing is to be done, or nothing that is typed would do it."""
    verdict = report["verdict"]
    explained = explain(verdict["rule"]) if verdict["rule"] and verdict["state"] != "undetermined" else None
    return report["run"].get("next_command") or explained
