"""What goes from a trace's only thread makes its steps shorter."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from slowstep.diagnosis.evidence.profiled.named_ranges import Shortened

STEPS: Any = SimpleNamespace(step_ns=np.array([100e6, 200e6]))


def test_the_interval_is_that_of_the_steps_with_least_and_most_of_it():
    gain = Shortened(np.array([50e6, 50e6]), "it is gone").gain(STEPS)

    assert gain.predicted == pytest.approx(300 / 200)
    assert gain.low == pytest.approx(200 / 150 * 0.96)
    assert gain.high == pytest.approx(2.0 * 1.04)


def test_a_step_of_which_nothing_would_be_left_ends_no_interval():
    gain = Shortened(np.array([100e6, 50e6]), "it is gone").gain(STEPS)

    assert gain.predicted == pytest.approx(2.0)
    assert gain.low == pytest.approx(200 / 150 * 0.96)
    assert gain.high is None
