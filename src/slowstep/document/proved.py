"""The largest gain that an experiment proved: which lever it is, what is known of the losses with it, and what it is in the script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from slowstep.document.experiment_rows import ChangeRow, ExperimentRow, OutcomeRow
from slowstep.prove.patch.change import ScriptChange
from slowstep.prove.stats.claimed import is_early
from slowstep.prove.stats.verdicts import GainVerdict
from slowstep.record.experiment.lever import NUMERICS, ORDER, Lever

Losses = Literal["same", "compared", "other order", "not compared", "same input", "other input", "other losses"]

# What is known of a lever that was tried.
Numbers = Literal["by construction"] | Losses
_DATA: Final = frozenset((NUMERICS, ORDER))


def largest_proved(rows: Sequence[ExperimentRow]) -> ExperimentRow | None:
    """Its row. A finding's first fix goes before what else it names, and that before what was asked for beside it: most of those answer a
    question, as what leaving something out would gain, and are no change to make.
    """
    proved = [row for row in rows if row["verdict"] == GainVerdict.PROVED]
    return max(proved, key=lambda row: (_rank(row), row["gain"]["value"] if row["gain"] else 1.0), default=None)


def _rank(row: ExperimentRow) -> int:
    return 0 if row["rule"] is None else 2 if row["role"] == "fix" else 1


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
    if "repeats" in numerics:
        return _of_claim(numerics)
    if numerics.get("bitwise_equal"):
        return "same"
    if numerics.get("whole") is not None:
        return "compared"
    return "other order" if "order" in row["changes"] else "not compared"


def numbers_of(row: ExperimentRow, lever: Lever | None) -> Numbers:
    """The same where what a lever is by its construction counts too: it changes neither numbers nor data."""
    # What only says why nothing was compared says nothing of the numbers.
    is_uncompared = row["numerics"] is None or "repeats" not in row["numerics"]
    if is_uncompared and lever is not None and lever.same_numbers and not row["changes_numerics"] and not _DATA & lever.changes:
        return "by construction"
    # What its runs were to compare was not.
    is_open = row["numerics"] is not None and "repeats" not in row["numerics"]
    found = losses_of(row)
    return "not compared" if found == "other order" and is_open else found


def _of_claim(numerics: Mapping[str, Any]) -> Losses:
    """Of a lever that claims the same numbers."""
    if numerics["same_input"] is False:
        return "other input" if is_early(numerics["first_other"]) else "other order"
    if numerics["bitwise_equal"]:
        return "same"
    if is_early(numerics["first_other_loss"]):
        return "other losses"
    return "same input" if numerics["same_input"] else "not compared"


def _change_row(change: ScriptChange | None) -> ChangeRow | None:
    if change is None or change.text is None or change.place is None:
        return None
    return {"text": change.text, "place": change.place, "makes": change.made, "others": change.others}
