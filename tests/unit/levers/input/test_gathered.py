"""Batches that lie ready, or are under way, when a lever is switched in the workers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from slowstep.frameworks.torch.inside.levers._input.gathered import READINGS, GatheredBatches


class Iterator:
    """As much of torch's iterator as is looked at: batches lie ready in a queue, and one is given at a time."""

    def __init__(self, ready: int, under_way: int, last: int = 1000) -> None:
        self.ready, self._last = ready, last
        self._worker_result_queue = SimpleNamespace(qsize=lambda: self.ready)
        self._rcvd_idx = 0
        self._task_info: dict[int, Any] = dict.fromkeys(range(ready + under_way), (0,))

    def _next_data(self) -> int:
        if self._rcvd_idx == self._last:
            raise StopIteration
        self._rcvd_idx += 1
        self.ready -= 1
        return self._rcvd_idx


def gathered(iterator: Any, usual: int = 0) -> GatheredBatches:
    training: Any = SimpleNamespace(iterator=iterator)
    made = GatheredBatches(training)
    now, iterator.ready = iterator.ready, usual
    for _ in range(READINGS):
        made.is_known()
    iterator.ready = now
    return made


def test_it_is_known_after_some_readings() -> None:
    training: Any = SimpleNamespace(iterator=Iterator(0, 2))
    made = GatheredBatches(training)

    assert [made.is_known() for _ in range(READINGS)] == [False] * (READINGS - 1) + [True]


@pytest.mark.parametrize("iterator", [None, SimpleNamespace()], ids=["no loader", "no workers"])
def test_without_workers_there_is_nothing_to_wait_for(iterator: Any) -> None:
    made = GatheredBatches(SimpleNamespace(iterator=iterator))  # type: ignore[arg-type]

    made.discard()
    made.switched()

    assert made.is_known()
    assert made.is_received()


@pytest.mark.parametrize(("usual", "left"), [(0, 0), (2, 2), (7, 5)])
def test_what_is_more_than_usual_is_discarded(usual: int, left: int) -> None:
    iterator = Iterator(ready=5, under_way=3)
    made = gathered(iterator, usual)

    made.discard()

    assert iterator.ready == left


def test_throwing_away_ends_with_the_epoch() -> None:
    iterator = Iterator(ready=5, under_way=0, last=2)

    gathered(iterator).discard()

    assert iterator._rcvd_idx == 2


def test_what_was_under_way_is_waited_for() -> None:
    iterator = Iterator(ready=1, under_way=2)
    made = gathered(iterator)

    made.switched()
    received = []
    for _ in range(4):
        received.append(made.is_received())
        iterator._next_data()

    assert received == [False, False, False, True]


def test_batches_of_an_iterator_that_is_gone_are_not_waited_for() -> None:
    training: Any = SimpleNamespace(iterator=Iterator(ready=1, under_way=2))
    made = GatheredBatches(training)

    made.switched()
    training.iterator = Iterator(ready=0, under_way=2)

    assert made.is_received()
