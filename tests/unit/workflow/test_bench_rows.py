"""Rows of the document of `slowstep bench`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slowstep.prove.stats.figures import Figure, inverse
from slowstep.workflow.bench_rows import figure

REACHES_NOTHING = np.linspace(-50.0, 740.0, 5000).clip(0.0)


@pytest.mark.parametrize(
    ("draws", "low", "high"),
    [
        (np.linspace(600.0, 740.0, 5000), pytest.approx(603.5, abs=0.1), pytest.approx(736.5, abs=0.1)),
        (REACHES_NOTHING, None, pytest.approx(720.25, abs=0.1)),
        (inverse(inverse(Figure(value=700.0, draws=REACHES_NOTHING))).draws, None, pytest.approx(720.25, abs=0.1)),
    ],
)
def test_an_end_that_reaches_to_nothing_is_not_known(draws: Any, low: Any, high: Any) -> None:
    assert figure(Figure(value=700.0, draws=draws)) == {"value": 700.0, "low": low, "high": high}


def test_an_end_that_reaches_to_everything_is_not_known() -> None:
    found = figure(inverse(Figure(value=1.0, draws=REACHES_NOTHING / 700)))

    assert found == {"value": 1.0, "low": pytest.approx(0.972, abs=0.001), "high": None}


def test_what_is_nothing_for_sure_is_nothing() -> None:
    assert figure(Figure(value=0.0, draws=np.zeros(9))) == {"value": 0.0, "low": 0.0, "high": 0.0}
    assert figure(None) is None
