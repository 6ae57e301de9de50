"""What `slowstep prove` advises next."""

from __future__ import annotations

from typing import Any

import pytest

from slowstep.workflow.prove_next import next_command


def report_of(*rows: dict[str, Any]) -> dict[str, Any]:
    facts = {"ended_by": "precision", "budget_s": 10.0, "precision": 0.05, "took_s": 4.0, "trustworthy": True, "exit_code": None}
    usual = {"state": "measured", "verdict": "proved", "held_back": None, "rule": None, "numerics": None}
    return {
        "run": {"experiment": facts, "command": ["train.py"]},
        "verdict": {"state": "healthy"},
        "experiments": [usual | row for row in rows],
    }


@pytest.mark.parametrize(
    ("numerics", "following"),
    [
        ({"says": "losses not compared: ...", "needed_budget_s": 14}, "slowstep prove --levers autocast=bf16 --budget 14s train.py"),
        ({"says": "losses equal to the last bit"}, "slowstep explain autocast"),
        (None, "slowstep explain autocast"),
    ],
)
def test_a_lever_that_changes_numbers_and_is_proved_needs_its_losses_compared(numerics: dict[str, Any] | None, following: str) -> None:
    assert next_command(report_of({"lever": "autocast=bf16", "numerics": numerics}), ("--levers", "autocast=bf16")) == following
