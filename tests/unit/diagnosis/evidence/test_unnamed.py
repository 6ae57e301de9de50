"""What is advised where time could not be attributed: it fits how the loop gets its input."""

from __future__ import annotations

from typing import Any

import pytest

from judged import unjudged
from made_measurements import measurements
from slowstep.diagnosis.engine import diagnose
from slowstep.diagnosis.evidence.record_longer import AT_LEVEL
from slowstep.diagnosis.evidence.unnamed import NAME_PARTS, NAME_WHAT_IS_BETWEEN, NOTES_LOST, TOO_FEW_CORES_BETWEEN
from slowstep.parts import NOT_ATTRIBUTED, Part, PartKind
from slowstep.reasons import Wording

CORES = Part("compute", PartKind.CORE_WAIT)


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({}, NAME_WHAT_IS_BETWEEN),
        ({"ledger": {CORES: 30.0}}, TOO_FEW_CORES_BETWEEN),
        ({"workers": None}, NAME_PARTS),
        ({"trainer": {"facts": {"lost_notes": 3}}}, NOTES_LOST),
    ],
    ids=["a loader", "a loader, and too few cores", "no loader", "a damaged recording"],
)
def test_unattributed_time_is_to_be_named_as_the_loops_input_allows(changes: dict[str, Any], remedy: Wording) -> None:
    ledger = {NOT_ATTRIBUTED: 15.0, **changes.get("ledger", {})}
    diagnosis = diagnose(measurements(**{**changes, "ledger": ledger}))

    reason = diagnosis.verdict.reason
    assert diagnosis.verdict.state == "undetermined"
    assert reason is not None
    assert (reason.code, reason.values["remedy"].code) == ("unattributed-time", remedy.code)
    assert diagnosis.change is not None


@pytest.mark.parametrize("has_stacks", [True, False], ids=["stacks", "no stacks"])
def test_to_record_longer_is_advised_where_there_are_no_stacks_at_all(has_stacks: bool) -> None:
    row = unjudged("slow-callback", measurements(ledger={NOT_ATTRIBUTED: 15.0}, has_stacks=has_stacks))

    assert row is not None
    assert row.reason.values["remedy"] == (NAME_WHAT_IS_BETWEEN() if has_stacks else AT_LEVEL())
