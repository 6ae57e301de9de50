"""Operations that a step does one by one are named where the device waits for them, with what compiling them gains."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from judged import answer_of, finding, judged, values
from made_measurements import changed, measurements
from slowstep.analyses.ledger.by_operation import ByOperation
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.engine import diagnose
from slowstep.parts import UPDATES
from slowstep.timeline.timeline import Frame

NAME = "operations-one-by-one"
FOUND = ByOperation(
    idled=60, worked=20, of=100, low=0.5, high=0.7, frame=Frame(file="/home/update.py", function="update", first_line=1, line=9), most=50
)


def updating(found: ByOperation | None, **more: Any) -> Measurements:
    """Steps that are nothing but updates."""
    nothing = dict.fromkeys(measurements().ledger.parts, 0.0)
    m = measurements(workers=None, ledger=nothing | {UPDATES: 10.0}, **more)
    return changed(m, ledger=replace(m.ledger, by_operation=found))


def test_they_are_the_bottleneck_where_the_device_waits_for_them_most_of_the_time():
    m = updating(FOUND)

    found, verdict = finding(NAME, m), diagnose(m).verdict
    assert (verdict.state, verdict.rule) == ("bottleneck", NAME), verdict.reason
    assert (found.share, found.share_low, found.share_high) == (0.6, 0.5, 0.7)
    # 95 % of 6 ms, and half of the 2 ms in which the device worked.
    assert found.gain.predicted == pytest.approx(10 / (10 - 5.7 - 1.0))
    assert values(found)["stack samples of it"] == 60
    assert found.evidence[2].where == "home/update.py:9, 50 samples"


def test_at_worst_the_device_worked_on_something_else_and_at_best_on_them_alone():
    case = judged(NAME, updating(FOUND)).counterfactual

    assert case.pessimistic.removed_ns.mean() == pytest.approx(0.5 * 0.8 * 10e6)
    assert case.optimistic.removed_ns.mean() == pytest.approx(0.9 * 10e6)


@pytest.mark.parametrize("found", [None, replace(FOUND, idled=2, low=0.0, high=0.06)], ids=["none", "2 % of the time"])
def test_few_of_them_are_left_alone(found):
    assert answer_of(NAME, updating(found)) is None
