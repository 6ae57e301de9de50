"""How often an even machine is said to be uneven: steps that differ by chance, each perhaps like the one before it."""

from __future__ import annotations

import numpy as np
import pytest

from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.over_time.pace import find_machine_pace
from slowstep.parts import BODY

SERIES = 300
SPREAD = 0.2


def lengths(steps: int, correlation: float, spread: float = SPREAD) -> np.ndarray:
    """Logarithms of step times, shape (SERIES, steps): an AR(1) series each, with the spread of a step whatever its correlation."""
    rng = np.random.default_rng(20261128)
    drawn = rng.standard_normal((steps, SERIES))
    series = [drawn[0]]
    for new in drawn[1:]:
        series.append(correlation * series[-1] + np.sqrt(1 - correlation**2) * new)
    return spread * np.array(series).T


def are_uneven(logarithms: np.ndarray) -> float:
    ledgers = (Ledger(parts=(BODY,), ns=1e7 * np.exp(each)[None, :], gap_stacks={}, timed={}) for each in logarithms)
    return float(np.mean([find_machine_pace(ledger).beyond_chance > 0 for ledger in ledgers]))


@pytest.mark.parametrize(
    ("steps", "correlation", "rate"),
    [
        (48, 0.0, 0.05),
        (160, 0.0, 0.05),
        (1000, 0.0, 0.05),
        (48, 0.5, 0.1),
        (160, 0.5, 0.1),
        (1000, 0.5, 0.1),
        (80, 0.8, 0.2),
        (160, 0.8, 0.2),
        (1000, 0.8, 0.1),
    ],
)
def test_so_many_even_machines_are_said_to_be_uneven(steps: int, correlation: float, rate: float) -> None:
    # Three standard errors of what is counted in so many series.
    assert are_uneven(lengths(steps, correlation)) <= rate + 3 * np.sqrt(rate * (1 - rate) / SERIES)


@pytest.mark.parametrize("steps", [48, 160, 1000])
def test_of_steps_as_skewed_as_a_lognormal_of_sigma_one_two_in_twenty_are(steps: int) -> None:
    assert are_uneven(lengths(steps, 0.0, spread=1.0)) <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / SERIES)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_a_drift_over_the_run_is_no_uneven_machine(correlation: float) -> None:
    drift = np.linspace(0.0, 1.0, 1000)

    assert are_uneven(lengths(1000, correlation) + drift) <= 0.15


@pytest.mark.parametrize(("steps", "correlation"), [(80, 0.0), (160, 0.0), (160, 0.5)])
def test_a_machine_that_is_slower_for_a_quarter_of_the_run_is_seen(steps: int, correlation: float) -> None:
    slower = np.where((np.arange(steps) >= 0.3 * steps) & (np.arange(steps) < 0.55 * steps), 0.5, 0.0)

    assert are_uneven(lengths(steps, correlation) / 2 + slower) >= 0.8
