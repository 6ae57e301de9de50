from __future__ import annotations

import pytest

from made_events import Events
from slowstep.analyses.batches.loader import Loader, find_loader
from slowstep.analyses.steps.trainer import find_trainer
from slowstep.record.writing.format import FIRST_OF_STEPS


def _found(events: Events) -> Loader | None:
    timeline = events.timeline()
    return find_loader(timeline, find_trainer(timeline))


@pytest.mark.parametrize("slow", [1, 2])
def test_of_two_loaders_that_are_read_together_the_one_that_is_waited_for_is_the_loader(tmp_path, slow):
    events = Events(tmp_path)
    for iterator in (1, 2):
        events.loader(iterator=iterator, loader=iterator, workers=iterator)
    for k in range(8):
        events.wait(40 * k, 40 * k + (10 if slow == 1 else 1), k, iterator=1)
        events.step(40 * k + 12, batch=k, iterator=2, wait=10 if slow == 2 else 1, length=20)

    loader = _found(events)

    assert loader is not None
    assert loader.num_workers == slow
    assert loader.read_together == 2
    assert loader.waited_share == 10 / 11
    assert loader.is_surely_most_waited_for


def test_of_two_loaders_that_are_waited_for_alike_another_one_may_be_it_next_time(tmp_path):
    events = Events(tmp_path)
    for iterator in (1, 2):
        events.loader(iterator=iterator, loader=iterator, workers=iterator)
    for k in range(8):
        events.wait(40 * k, 40 * k + 10, k, iterator=1)
        events.step(40 * k + 12, batch=k, iterator=2, wait=9, length=20)

    loader = _found(events)

    assert loader is not None
    assert (loader.num_workers, loader.is_surely_most_waited_for) == (1, False)


def test_loaders_that_are_made_anew_for_each_epoch_are_not_read_together(tmp_path):
    events = Events(tmp_path)
    for epoch in range(3):
        events.loader(iterator=epoch, loader=epoch, workers=epoch + 1)
        for k in range(5):
            events.step(100 * epoch + 20 * k, batch=k, iterator=epoch, wait=10 if epoch == 0 else 1, length=15)

    loader = _found(events)

    assert loader is not None
    assert (loader.num_workers, loader.read_together, loader.waited_share) == (3, 1, 1.0)


def test_loaders_are_read_together_where_the_last_epoch_has_just_begun(tmp_path):
    events = Events(tmp_path)
    for iterator in range(4):
        events.loader(iterator=iterator, loader=iterator % 2, workers=1)
        events.trainer.lines[-1]["dataset"] = "Clips"
    for k in range(10):
        iterator = 2 * (k >= 8) + k % 2
        events.step(20 * k, batch=k // 2 % 4, iterator=iterator, wait=10 if k % 2 else 1, length=15)

    loader = _found(events)

    assert loader is not None
    assert (loader.read_together, loader.iterators, loader.is_named) == (2, (1, 3), False)
    assert [other.iterators for other in loader.other_loaders] == [(0, 2)]


@pytest.mark.parametrize(
    ("number", "said", "marked"),
    [
        (FIRST_OF_STEPS, {"marked": True}, True),
        (FIRST_OF_STEPS, {"marked": False}, False),
        (FIRST_OF_STEPS, {"marked": False, "framework": "keras"}, False),
        # Older recordings do not say it.
        (FIRST_OF_STEPS, {}, True),
        (FIRST_OF_STEPS, {"framework": "tensorflow"}, False),
        (1, {}, False),
    ],
)
def test_input_is_the_scripts_own_where_it_says_so_or_where_no_framework_numbered_it(tmp_path, number, said, marked):
    events = Events(tmp_path)
    events.loader(iterator=number, loader=number, **said)
    for k in range(8):
        events.step(20 * k, batch=k, iterator=number, wait=5, length=15)

    loader = _found(events)

    assert loader is not None
    assert (loader.is_marked, loader.framework) == (marked, said.get("framework"))


def test_without_a_loader_there_is_none(tmp_path):
    events = Events(tmp_path)
    for k in range(5):
        events.update(10 * k, 10 * k + 1)

    assert _found(events) is None
