"""Turns of an epoch of Keras' fit given out in groups, of an iterator that is made up."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from slowstep.frameworks.keras.inside._epochs import GroupedEpochs


class Epochs:
    """As those of Keras: a turn for each of eight batches."""

    def __init__(self) -> None:
        self.steps_per_epoch, self.steps_per_execution, self._num_batches, self._steps_seen = None, 1, 8, 0
        self._epoch_iterator: Any = self._enumerate_iterator()

    def _enumerate_iterator(self) -> Iterator[tuple[int, int, Any]]:
        self._steps_seen = 0
        for step in range(8):
            self._steps_seen += 1
            yield step, step, "data"

    def begin(self) -> list[tuple[int, int]]:
        self._epoch_iterator = self._enumerate_iterator()
        return self.rest()

    def rest(self) -> list[tuple[int, int]]:
        return [(first, last) for first, last, _ in self._epoch_iterator]


SINGLE = [(step, step) for step in range(8)]
PAIRS = [(0, 1), (2, 3), (4, 5), (6, 7)]


def always() -> bool:
    return True


def test_nothing_is_changed_of_an_iterator_that_lacks_what_begins_an_epoch():
    class Other:
        def __init__(self) -> None:
            self._epoch_iterator = self.before = iter(())

    other = Other()
    with pytest.raises(AttributeError):
        GroupedEpochs(other, 2, always)

    assert other._epoch_iterator is other.before


def test_a_fault_of_ours_costs_the_groups_and_is_told():
    def fails() -> bool:
        raise KeyError

    epochs = Epochs()
    grouped = GroupedEpochs(epochs, 2, fails)

    assert epochs.rest() == SINGLE
    assert isinstance(grouped.broken, KeyError)


def test_what_the_data_raise_is_passed_on_without_our_frames(monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    epochs = Epochs()
    epochs._epoch_iterator = (1 // 0 for _ in range(1))
    GroupedEpochs(epochs, 2, always)

    with pytest.raises(ZeroDivisionError):
        epochs.rest()

    assert sys.excepthook is not sys.__excepthook__


def test_the_iterator_is_not_kept_alive():
    epochs = Epochs()
    grouped = GroupedEpochs(epochs, 2, always)
    assert epochs.rest() == epochs.begin() == PAIRS

    gone = weakref.ref(epochs)
    gc.disable()
    try:
        del epochs
        assert gone() is None
    finally:
        gc.enable()
    grouped.remove()


def test_of_two_that_group_one_is_removed_and_the_other_stays():
    epochs = Epochs()
    first = GroupedEpochs(epochs, 4, lambda: False)
    second = GroupedEpochs(epochs, 2, always)
    first.remove()
    assert epochs.begin() == PAIRS

    second.remove()
    assert epochs.begin() == SINGLE


def test_what_the_other_groups_is_told_to_whoever_looks():
    epochs, seen = Epochs(), []
    GroupedEpochs(epochs, 2, always)
    GroupedEpochs(epochs, 4, lambda: False)
    for _ in epochs._epoch_iterator:
        seen.append(epochs.steps_per_execution)

    assert seen == [2] * 4
    assert epochs.steps_per_execution == 1
