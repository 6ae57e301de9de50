"""A device that is busy with what somebody has named beside the model is no healthy training's."""

from __future__ import annotations

from typing import Any

import pytest

from judged_traces import finding, judged
from made_measured_traces import made_measured
from made_parts import span_part
from slowstep.analyses.events.parts import KERNELS, piece
from slowstep.diagnosis.engine import diagnose
from slowstep.parts import VALIDATION, PieceKind

NAME = "beside-the-model"


def validating(ms: float, *, steps: tuple[int, ...] = (3,)) -> dict[str, list[dict[str, Any]]]:
    """Rows of the table in which so many ms of those steps are a validation's."""
    return {"named_work": [{"step": k, "part": VALIDATION, "kernels": 9, "ns": int(ms * 1e6)} for k in steps]}


def test_a_validation_that_fills_a_step_is_named_and_the_training_is_not_healthy():
    m = made_measured(steps=5, step_ms=[100.0, 100.0, 100.0, 400.0, 100.0], tables=validating(300.0))

    found, verdict = finding(NAME, m), diagnose(m).verdict

    assert found.title == "the device computes for validation 38 % of the time"
    assert found.claims == (piece(KERNELS, PieceKind.RANGE, of=VALIDATION),)
    assert found.gain.predicted is None
    assert verdict.state == "undetermined"
    assert (verdict.reason.code, verdict.reason.values["rule"]) == ("may-concern", NAME)


def test_the_name_that_holds_most_is_told():
    rows = validating(50.0, steps=(1, 2))["named_work"]
    rows += [{"step": 1, "part": span_part("output", "metrics"), "kernels": 1, "ns": 60_000_000}]

    assert "validation 10 %" in finding(NAME, made_measured(tables={"named_work": rows})).title


@pytest.mark.parametrize("tables", [{}, validating(20.0)], ids=["none", "under 3 %"])
def test_little_of_it_is_not_said(tables):
    m = made_measured(tables=tables)

    assert judged(NAME, m) is None
    assert diagnose(m).verdict.state == "healthy"
