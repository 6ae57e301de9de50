"""A batch holds as many samples as its loader was asked for, whatever its leading dimension counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from made_events import Events
from slowstep.analyses.batches.asked_samples import ASKED, NOT_LEADING
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import LEADING
from slowstep.record.writing.format import EVALUATING, NO_GRADIENT

EPOCHS, BATCHES = 4, 10
NODES = (1164, 1250, 1382, 1201, 1222)
KEPT = (32, 31, 30, 29, 31)


def steps_of(
    folder: Path, leading: Sequence[int], asked: int, *, rest: int | None = None, worker: int | None = None, recorded: int = 1
) -> Steps:
    """Epochs of batches whose leading dimensions go round; the last one was asked for `rest` samples. One fetch in `recorded` is known."""
    events = Events(folder)
    now, count = 0.0, 0
    for epoch in range(EPOCHS):
        events.loader(iterator=epoch, loader=1, workers=0 if worker is None else worker + 1, begin=now, end=now)
        for batch in range(BATCHES):
            samples = asked if rest is None or batch < BATCHES - 1 else rest
            if count % recorded == 0:
                events.fetch(now + 0.1, now + 0.9, batch, cpu=0.8, iterator=epoch, samples=samples, worker=worker)
            events.wait(now, now + 1, batch, iterator=epoch, samples=leading[count % len(leading)])
            events.backward(now + 2, now + 8)
            events.update(now + 8, now + 9)
            now, count = now + 10, count + 1
    return measure_recording(events.timeline(), 0).steps


@pytest.mark.parametrize("worker", [None, 0], ids=["no workers", "a worker"])
@pytest.mark.parametrize(
    "leading", [NODES, (20,), (64,), (-1,), (10, 50, 33)], ids=["nodes", "a length", "two crops", "unknown", "lengths around the size"]
)
def test_what_the_loader_was_asked_for_is_the_batch(tmp_path, leading, worker):
    steps = steps_of(tmp_path, leading, 32, worker=worker)

    assert (steps.batch_size, steps.batch_sizes, steps.batch_size_from) == (32, None, NOT_LEADING)
    assert set(steps.samples.tolist()) == {32.0}


def test_an_epochs_rest_is_counted_as_it_is(tmp_path):
    steps = steps_of(tmp_path, NODES, 32, rest=8)

    assert steps.batch_size == 32
    assert sorted(set(steps.samples.tolist())) == [8.0, 32.0]


def test_a_batch_whose_making_was_not_recorded_is_as_large_as_usual(tmp_path):
    assert set(steps_of(tmp_path, NODES, 32, recorded=3).samples.tolist()) == {32.0}


def test_where_the_leading_dimension_says_the_same_it_is_confirmed(tmp_path):
    steps = steps_of(tmp_path, (32,), 32)

    assert (steps.batch_size, steps.batch_size_from) == (32, ASKED)


def test_one_index_may_be_a_whole_batch(tmp_path):
    steps = steps_of(tmp_path, (64,), 1)

    assert (steps.batch_size, steps.batch_size_from) == (64, LEADING)


def test_where_no_samples_are_asked_for_the_leading_dimension_is_assumed(tmp_path):
    steps = steps_of(tmp_path, (64,), -1)

    assert (steps.batch_size, steps.batch_size_from) == (64, LEADING)


@pytest.mark.parametrize(("leading", "whence"), [(KEPT, LEADING), ((32, 32, 31), ASKED)], ids=["many", "some"])
def test_samples_that_collating_leaves_out_are_not_in_the_batch(tmp_path, leading, whence):
    steps = steps_of(tmp_path, leading, 32)

    assert steps.batch_size_from == whence
    assert set(steps.samples.tolist()) == {float(size) for size in leading}


def test_what_a_validations_loader_was_asked_for_says_nothing_of_a_loop_without_one(tmp_path):
    events = Events(tmp_path)
    for k in range(40):
        if k % 10 == 5:
            events.loader(iterator=k, loader=1, begin=20 * k - 6, end=20 * k - 6)
            for batch in range(4):
                now = 20 * k - 5 + batch
                events.fetch(now, now + 0.5, batch, cpu=0.4, iterator=-1, samples=128)
                events.wait(now, now + 0.5, batch, iterator=k, samples=128)
                events.forward(now + 0.6, now + 0.9, samples=128, flags=NO_GRADIENT | EVALUATING)
        events.forward(20 * k, 20 * k + 1, samples=128)
        events.backward(20 * k + 1, 20 * k + 8)
        events.update(20 * k + 8, 20 * k + 9)

    steps = measure_recording(events.timeline(), 0).steps

    assert steps.batch_size == 128
    assert "assumed" in str(steps.batch_size_from)


@pytest.mark.parametrize(("fetches", "size"), [(1, 4), (4, 16)], ids=["crops", "batches that are joined"])
def test_what_is_made_of_several_batches_is_not_as_large_as_one(tmp_path, fetches, size):
    events = Events(tmp_path)
    events.loader(iterator=1, loader=1)
    for k in range(40):
        now = 20.0 * k
        for batch in range(fetches):
            events.fetch(now + batch + 0.1, now + batch + 0.9, batch, cpu=0.8, iterator=1, samples=4)
        events.wait(now, now + 5, k, iterator=1, samples=16)
        events.backward(now + 6, now + 10)
        events.update(now + 10, now + 11)

    steps = measure_recording(events.timeline(), 0).steps

    assert (steps.batch_size, set(steps.samples.tolist())) == (size, {float(size)})
