"""Loaders that are read in turns, of which the one that is waited for most needs more workers."""

from __future__ import annotations

import pytest

from judged import finding, values
from made_measurements import MS, fed, measurements, merged


@pytest.mark.parametrize(("is_named", "whose"), [(False, "one of Clips"), (True, "for Clips")])
def test_more_workers_are_advised_for_the_loader_that_is_waited_for_most(is_named, whose):
    several = {"loader": {"dataset": "Clips", "read_together": 2, "is_named": is_named}, "demand": {"batches": 0.5}}
    m = measurements(**merged(fed(1, cpu_ms=30.5), several))

    found = finding("too-few-workers", m)

    assert found.fixes[0].text.endswith(whose)
    assert values(found)["worker time per step"] == pytest.approx(m.input.demand.wall_ns / MS)
