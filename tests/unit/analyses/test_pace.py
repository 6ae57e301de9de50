from __future__ import annotations

import numpy as np
import pytest

from slowstep.analyses.ledger import CORE, Ledger
from slowstep.analyses.pace import find_pace_spread

STEPS = 160


def ledger_of(compute_ms: np.ndarray, *, core_ms: float = 0.0, output_ms: float = 1.0) -> Ledger:
    count = len(compute_ms)
    rows = np.stack([compute_ms, np.full(count, core_ms), np.full(count, output_ms)]) * 1e6
    return Ledger(parts=(("compute", "forward"), ("compute", CORE), ("output", "draw")), ns=rows, gap_stacks={}, timed={})


def test_an_even_machine_has_no_spread():
    assert find_pace_spread(ledger_of(np.full(STEPS, 10.0))) == pytest.approx(0.0)


def test_a_machine_that_is_half_as_fast_for_a_while_is_uneven():
    compute = np.full(STEPS, 10.0)
    compute[40:80] = 20.0

    assert find_pace_spread(ledger_of(compute)) > 0.25


def test_steps_that_differ_one_by_one_are_no_uneven_machine():
    compute = np.tile([5.0, 15.0], STEPS // 2)

    assert find_pace_spread(ledger_of(compute)) == pytest.approx(0.0)


def test_work_that_grows_steadily_is_no_uneven_machine():
    assert find_pace_spread(ledger_of(10.0 * np.exp(np.linspace(0, 1, STEPS)))) < 0.01


@pytest.mark.parametrize(
    "ledger",
    [ledger_of(np.geomspace(1, 9, 39)), ledger_of(np.geomspace(1, 9, STEPS), output_ms=500.0), ledger_of(np.zeros(STEPS))],
    ids=["too few steps", "too little of its own", "none"],
)
def test_where_the_pace_cannot_be_seen_it_is_taken_to_be_even(ledger):
    assert find_pace_spread(ledger) == 0.0
