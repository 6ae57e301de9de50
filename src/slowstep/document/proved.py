"""The largest gain that an experiment proved: which lever it is, what is known of the losses with it, and what it is in the script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from slowstep.document.experiment_rows import ChangeRow, ExperimentRow, OutcomeRow
from slowstep.prove.patch.change import ScriptChange
from slowstep.prove.stats.verdicts import GainVerdict

Losses = Literal["same", "compared", "other order", "not compared"]


def largest_proved(rows: Sequence[ExperimentRow]) -> ExperimentRow | None:
    """Its row. What a finding names goes before what was asked for beside it: most of that answers a question, and is no change to make."""
    proved = [row for row in rows if row["verdict"] == GainVerdict.PROVED]
    return max(proved, key=lambda row: (row["rule"] is not None, row["gain"]["value"] if row["gain"] else 1.0), default=None)


def outcome_row(rows: Sequence[ExperimentRow], changes: Mapping[str, ScriptChange], *, trustworthy: bool | None) -> OutcomeRow | None:
    """What was proved, as plain data; None where nothing was, or nothing is to be trusted."""
    row = largest_proved(rows)
    if row is None or row["gain"] is None or trustworthy is False:
        return None
    lever = str(row["lever"])
    return {
        "lever": lever,
        "gain": row["gain"],
        "throughput": row["throughput"],
        "used": row["used"],
        "losses": losses_of(row),
        "change": _change_row(changes.get(lever)),
    }


def losses_of(row: ExperimentRow) -> Losses:
    """What is known of the losses with a lever. That it should not change any is no comparison."""
    numerics = row["numerics"] or {}
    if numerics.get("bitwise_equal"):
        return "same"
    if numerics.get("whole") is not None:
        return "compared"
    return "other order" if "order" in row["changes"] else "not compared"


def _change_row(change: ScriptChange | None) -> ChangeRow | None:
    if change is None or change.text is None or change.place is None:
        return None
    return {"text": change.text, "place": change.place, "makes": change.made, "others": change.others}
