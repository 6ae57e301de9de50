"""Which gain is the largest that was proved, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest

from slowstep.document.proved import largest_proved, losses_of, numbers_of, outcome_row
from slowstep.prove.patch.change import ScriptChange
from slowstep.record.experiment.implementations import known_levers

CHANGE = ScriptChange(place="train.py:3", text="DataLoader(..., num_workers=2)", made="loader", others=1, difference=b"-", folder="/")
SPEEDS = {"per": "sample", "as_is_per_s": 100.0, "per_s": 170.0}


def row(lever: str, gain: float, *, rule: str | None = "serial-loader", verdict: str = "proved", **more: Any) -> Any:
    interval = {"value": gain, "low": gain - 0.1, "high": gain + 0.1}
    usual = {"role": "fix", "gain": interval, "throughput": SPEEDS, "used": "wall", "numerics": None, "changes": []}
    return {"lever": lever, "rule": rule, "verdict": verdict, **usual, **more}


@pytest.mark.parametrize(
    ("rows", "lever"),
    [
        ([], None),
        ([row("workers=2", 3.0, verdict="refuted")], None),
        ([row("workers=2", 1.2), row("workers=4", 1.7), row("workers=8", 1.9, verdict="cannot distinguish")], "workers=4"),
        ([row("mock-loader", 4.0, rule=None), row("workers=2", 1.2)], "workers=2"),
        ([row("mock-loader", 4.0, rule=None), row("workers=2", 1.2, rule=None)], "mock-loader"),
        ([row("workers=2", 1.2), {**row("workers=4", 1.0), "gain": None}], "workers=2"),
        ([{**row("stub=data:load", 1.5), "role": "other"}, row("workers=2", 1.4)], "workers=2"),
        ([{**row("stub=data:load", 1.5), "role": "other"}, row("mock-loader", 4.0, rule=None)], "stub=data:load"),
    ],
)
def test_the_largest_is_of_what_a_finding_names_where_one_does(rows: list[Any], lever: str | None) -> None:
    found = largest_proved(rows)

    assert (None if found is None else found["lever"]) == lever


@pytest.mark.parametrize(
    ("numerics", "changes", "losses"),
    [
        ({"bitwise_equal": True, "whole": {"relative": 0.0}}, ["numerics"], "same"),
        ({"bitwise_equal": False, "whole": {"relative": 0.01}}, ["numerics"], "compared"),
        ({"says": "losses not compared", "needed_budget_s": 90}, ["numerics"], "not compared"),
        (None, ["order", "demand"], "other order"),
        (None, [], "not compared"),
    ],
)
def test_losses_are_the_same_only_where_they_were_compared(numerics: Any, changes: list[str], losses: str) -> None:
    assert losses_of(row("autocast=bf16", 1.5, numerics=numerics, changes=changes)) == losses


def claim(**more: Any) -> dict[str, Any]:
    same = {"same_input": True, "repeats": True, "bitwise_equal": True, "first_other": None, "first_other_loss": None}
    return {"steps": 40, **same, **more}


@pytest.mark.parametrize(
    ("lever", "numerics", "numbers"),
    [
        ("validation-off", None, "by construction"),
        ("anomaly-off", None, "by construction"),
        ("stub=train:f", None, "not compared"),
        ("threads=2", None, "not compared"),
        ("fused", None, "not compared"),
        ("workers=2", None, "other order"),
        ("workers=2", {"says": "it takes too long"}, "not compared"),
        ("workers=2", claim(), "same"),
        ("workers=2", claim(repeats=False, bitwise_equal=False), "same input"),
        ("workers=2", claim(repeats=False, bitwise_equal=False, same_input=None), "not compared"),
        ("workers=2", claim(bitwise_equal=False, first_other_loss=1), "other losses"),
        ("workers=2", claim(bitwise_equal=False, first_other_loss=21), "same input"),
        ("workers=2", claim(bitwise_equal=False, same_input=False, first_other=1), "other input"),
        ("workers=2", claim(bitwise_equal=False, same_input=False, first_other=21), "other order"),
        ("fused", {"bitwise_equal": False, "whole": {"relative": 0.01}, "same_input": False}, "compared"),
    ],
)
def test_of_each_lever_it_is_told_what_is_known_of_the_numbers(lever: str, numerics: Any, numbers: str) -> None:
    known = known_levers()[lever.partition("=")[0]]
    found = row(lever, 1.5, numerics=numerics, changes=sorted(known.changes), changes_numerics="numerics" in known.changes)

    assert numbers_of(found, known) == numbers
    # Of a fix that says so it is not taken for granted.
    assert numbers_of({**found, "changes_numerics": True}, known) != "by construction"


def test_the_outcome_has_the_change_of_its_lever() -> None:
    rows, changes = [row("workers=2", 1.7)], {"workers=2": CHANGE, "workers=4": ScriptChange()}

    found = outcome_row(rows, changes, trustworthy=None)

    assert found is not None
    assert (found["lever"], found["throughput"], found["losses"]) == ("workers=2", SPEEDS, "not compared")
    assert found["change"] == {"text": CHANGE.text, "place": "train.py:3", "makes": "loader", "others": 1}
    refused = outcome_row(rows, {"workers=2": ScriptChange(reason="it is no call")}, trustworthy=True)
    assert refused is not None
    assert refused["change"] is None


def test_of_an_experiment_that_is_not_to_be_trusted_there_is_none() -> None:
    assert outcome_row([row("workers=2", 1.7)], {"workers=2": CHANGE}, trustworthy=False) is None
