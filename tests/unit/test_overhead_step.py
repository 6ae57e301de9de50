from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location("overhead_step", Path(__file__).parents[2] / "benchmarks/overhead_step.py")
overhead_step = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(overhead_step)


@pytest.mark.parametrize("ms_per_sample", [0.013, 0.052, 0.2])
def test_the_step_takes_20_ms_on_fast_and_slow_machines(ms_per_sample):
    batch, took = overhead_step.find_batch(lambda batch: 1.5 + batch * ms_per_sample)

    assert took == pytest.approx(20.0, rel=0.05)
    assert took == pytest.approx(1.5 + batch * ms_per_sample)


def test_of_a_machine_that_is_never_near_the_best_try_counts():
    lengths = iter([13.0, 30.0, 22.5, 28.0, 15.0, 30.0])

    assert overhead_step.find_batch(lambda _: next(lengths))[1] == 22.5


def test_a_step_that_no_batch_makes_20_ms_long_is_an_error():
    with pytest.raises(overhead_step.NotCalibrated, match="is the machine busy"):
        overhead_step.find_batch(lambda _: 50.0)
