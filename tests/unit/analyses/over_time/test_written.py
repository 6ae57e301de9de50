"""What the steps write early and late, by the counters of the process tree."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from slowstep.analyses.over_time.written import WrittenBytes, find_written

SECOND = 10**9


def _written(stretches: int, bytes_at: Any) -> WrittenBytes | None:
    """Of so many steps of ten seconds each, with a reading every second."""
    seconds = np.arange(10 * stretches + 1)
    readings = pl.DataFrame({"time_ns": seconds * SECOND, "written_bytes": [int(bytes_at(s)) for s in seconds.tolist()]})
    edges = np.arange(stretches + 1) * 10 * SECOND
    timeline: Any = SimpleNamespace(table=lambda name: readings)
    steps: Any = SimpleNamespace(stretches=stretches, edges_ns=edges, bounds_ns=(int(edges[0]), int(edges[-1])))
    return find_written(timeline, steps)


def test_growth_is_that_of_the_last_step_over_the_first():
    found = _written(9, lambda s: 50 * s * s)

    assert found is not None
    # A step k of ten seconds writes 50 * (100 * (2 k + 1)) bytes: each 10,000 more than the one before.
    assert found.growth_bytes == pytest.approx(90_000, rel=0.01)


@pytest.mark.parametrize("stretches", [1, 2])
def test_of_one_or_two_long_steps_nothing_is_said(stretches):
    assert _written(stretches, lambda s: 100 * s) is None


@pytest.mark.parametrize(
    ("bytes_at", "grows"),
    [(lambda s: 50 * s * s, True), (lambda s: 1000 * s, False), (lambda s: 1000 * s + 3000 * max(s - 60, 0), False), (lambda s: 0, False)],
)
def test_only_what_rises_from_third_to_third_grows(bytes_at, grows):
    found = _written(9, bytes_at)

    assert found is not None
    assert found.grows == grows
