from __future__ import annotations

import numpy as np
import pytest

from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.over_time.pace import EVEN, find_machine_pace
from slowstep.parts import BODY, Part, PartKind

STEPS = 160


def ledger_of(compute_ms: np.ndarray, *, core_ms: float = 0.0, output_ms: float = 1.0) -> Ledger:
    count = len(compute_ms)
    rows = np.stack([compute_ms, np.full(count, core_ms), np.full(count, output_ms)]) * 1e6
    parts = (BODY, Part("compute", PartKind.CORE_WAIT), Part("output", PartKind.SPAN, "draw"))
    return Ledger(parts=parts, ns=rows, gap_stacks={}, timed={})


def test_an_even_machine_has_no_spread():
    assert find_machine_pace(ledger_of(np.full(STEPS, 10.0))).spread == pytest.approx(0.0)


def test_a_machine_that_is_half_as_fast_for_a_while_is_uneven():
    compute = np.full(STEPS, 10.0)
    compute[40:80] = 20.0

    assert find_machine_pace(ledger_of(compute)).spread > 0.25


def test_steps_that_differ_one_by_one_are_no_uneven_machine():
    compute = np.tile([5.0, 15.0], STEPS // 2)

    assert find_machine_pace(ledger_of(compute)).spread == pytest.approx(0.0)


@pytest.mark.parametrize("spread", [0.1, 0.6])
def test_steps_that_differ_by_chance_are_no_uneven_machine(spread):
    found = [find_machine_pace(ledger_of(10.0 * np.exp(_normal(seed, spread)))) for seed in range(100)]

    assert sum(pace.beyond_chance > 0 for pace in found) <= 10
    # Two runs differ by it all the same.
    assert np.median([pace.spread for pace in found]) == pytest.approx(spread / np.sqrt(STEPS / 8), rel=0.2)


@pytest.mark.parametrize("spread", [0.1, 0.6])
def test_an_uneven_machine_is_seen_behind_steps_that_differ(spread):
    pace = np.repeat([0.4, -0.4, 0.4, -0.4, -0.4, 0.4, -0.4, 0.4], STEPS // 8)
    found = [find_machine_pace(ledger_of(10.0 * np.exp(_normal(seed, spread) + pace))) for seed in range(20)]

    assert np.median([each.beyond_chance for each in found]) == pytest.approx(0.45, abs=0.07)


def _normal(seed: int, spread: float) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0, spread, STEPS)


def test_work_that_grows_steadily_is_no_uneven_machine():
    assert find_machine_pace(ledger_of(10.0 * np.exp(np.linspace(0, 1, STEPS)))).spread < 0.01


@pytest.mark.parametrize(
    "ledger",
    [ledger_of(np.geomspace(1, 9, 39)), ledger_of(np.geomspace(1, 9, STEPS), output_ms=500.0), ledger_of(np.zeros(STEPS))],
    ids=["too few steps", "too little of its own", "none"],
)
def test_where_the_pace_cannot_be_seen_it_is_taken_to_be_even(ledger):
    assert find_machine_pace(ledger) == EVEN


def _sizes() -> np.ndarray:
    """Inputs of very different sizes, in random order: a few of them decide what a block of steps takes."""
    return 1000.0 * np.exp(np.random.default_rng(0).normal(0.0, 1.1, STEPS))


def test_work_that_the_inputs_sizes_explain_is_no_uneven_machine():
    sizes = _sizes()
    compute = 3 + sizes / 500 + (sizes / 4000) ** 2

    assert find_machine_pace(ledger_of(compute)).spread > 0.1
    assert find_machine_pace(ledger_of(compute), sizes).spread == pytest.approx(0.0, abs=1e-6)


def test_a_machine_that_is_slow_for_a_while_is_uneven_whatever_the_inputs_sizes():
    sizes = _sizes()
    compute = 3 + sizes / 500
    compute[40:80] *= 2

    assert find_machine_pace(ledger_of(compute), sizes).spread > 0.2


def test_sizes_of_which_too_few_are_known_explain_nothing():
    sizes = _sizes()
    compute = 3 + sizes / 500
    sizes[: STEPS // 4] = np.nan

    assert find_machine_pace(ledger_of(compute), sizes) == find_machine_pace(ledger_of(compute))
