"""What an experiment proved, in one line: from how fast to how fast, the gain, and what is known of the losses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from slowstep.units import format_number, format_rate, format_ratio_interval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slowstep.document.experiment_rows import ExperimentRow, OutcomeRow
    from slowstep.document.report import Report

_LOSSES: Final = {
    "same": "same losses",
    "other order": "data in another order",
    "not compared": "losses not compared",
    "same input": "same input",
    "other input": "data in another order or form",
    "other losses": "other losses than without it",
}
_CORRECTED: Final = " without the waits for cores that other processes used"


def outcome_line(report: Report) -> str | None:
    """The line; None where nothing was proved."""
    facts = report["run"].get("experiment")
    outcome = None if facts is None else facts.get("outcome")
    if outcome is None:
        return None
    rows = [row for row in report["experiments"] if row["lever"] == outcome["lever"]]
    # What is to be changed says which it was.
    lever = "" if outcome["change"] else f" by {outcome['lever']}"
    return ", ".join(filter(None, (_speeds(outcome), _gain(outcome) + lever, _losses(outcome, rows))))


def _speeds(outcome: OutcomeRow) -> str:
    found = outcome["throughput"]
    return "" if found is None else f"{format_number(found['as_is_per_s'])} -> {format_rate(found['per_s'], found['per'] + 's')}"


def _gain(outcome: OutcomeRow) -> str:
    gain = outcome["gain"]
    low, high = gain["low"] or gain["value"], gain["high"]
    return format_ratio_interval(gain["value"], low, high) + (_CORRECTED if outcome["used"] == "corrected" else "")


def _losses(outcome: OutcomeRow, rows: list[ExperimentRow]) -> str:
    numerics: Mapping[str, Any] = next((row["numerics"] for row in rows if row["numerics"]), {})
    if outcome["losses"] != "compared" or not numerics.get("whole"):
        return _LOSSES.get(outcome["losses"], _LOSSES["not compared"])
    whole = numerics["whole"]
    spread = "" if whole["spread"] is None else f" (between seeds {whole['spread'] * 100:.2g} %)"
    return f"mean loss {whole['relative'] * 100:+.2g} %{spread}"
