"""The size of batches, of what compiled calls have counted so far."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from slowstep.frameworks.keras.inside._batch_sizes import VARY, CountedSizes
from slowstep.levers.batch_size import UNTOLD
from slowstep.record.experiment.lever import NotApplicable


def looked_at(*counted: tuple[int, int | None]) -> CountedSizes:
    """After steps at whose ends so many batches, and samples in them, were counted in all."""
    readings: Iterable[Any] = iter([(batches, 0, samples) for batches, samples in counted])
    sizes = CountedSizes(SimpleNamespace(read=lambda: next(readings)))  # type: ignore[arg-type,call-overload]
    for _ in counted:
        sizes.look()
    return sizes


def test_it_is_the_largest_which_most_have():
    assert looked_at((1, 4), (2, 8), (3, 10), (4, 14)).usual == 4


def test_batches_of_many_sizes_have_none():
    with pytest.raises(NotApplicable, match=VARY):
        _ = looked_at((1, 4), (2, 8), (3, 10), (4, 13)).usual


@pytest.mark.parametrize(
    "counted", [((1, 4),), ((1, 4), (3, 12), (5, 20)), ((1, 0), (2, 0), (3, 0))], ids=["one step", "two batches a step", "of no sample"]
)
def test_where_no_size_was_counted_that_is_what_is_said(counted):
    with pytest.raises(NotApplicable, match=UNTOLD):
        _ = looked_at(*counted).usual


@pytest.mark.parametrize("counted", [(0, 0), (3, None)])
def test_where_nothing_counts_there_is_none(counted):
    with pytest.raises(NotApplicable, match=UNTOLD):
        looked_at(counted)
