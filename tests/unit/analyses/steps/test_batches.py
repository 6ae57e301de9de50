from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from made_events import Events
from made_recordings import Training, make_recording
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.steps.batches import SizeChange, find_batches
from slowstep.analyses.steps.steps import Steps, find_steps
from slowstep.analyses.steps.suspensions import NO_SUSPENSIONS
from slowstep.analyses.steps.trainer import find_trainer
from slowstep.sources.recording import SOURCE


def _training(folder: Path, sizes: list[int], *, loader: bool = True) -> Events:
    """A step of 20 ms for each size."""
    events = Events(folder)
    if loader:
        events.loader()
    for k, size in enumerate(sizes):
        if loader:
            events.wait(20 * k, 20 * k + 1, k, samples=size)
        else:
            events.forward(20 * k + 1, 20 * k + 5, samples=size)
        events.backward(20 * k + 5, 20 * k + 17)
        events.update(20 * k + 18, 20 * k + 20)
    return events


def _steps(events: Events) -> Steps:
    timeline = events.timeline()
    return find_steps(find_trainer(timeline), timeline.table("totals"), NO_SUSPENSIONS, warmup=0)


GROWING = [8] * 40 + [16] * 40 + [32] * 40


@pytest.mark.parametrize("loader", [True, False], ids=["loader", "no loader"])
def test_a_size_that_changes_is_told_with_the_steps_at_which_it_does(tmp_path, loader):
    steps = _steps(_training(tmp_path, GROWING, loader=loader))

    assert steps.batch_sizes == (8, 32)
    assert steps.size_changes == (SizeChange(step=41, before=8, after=16), SizeChange(step=81, before=16, after=32))


def test_the_size_is_that_of_the_window_and_of_two_as_frequent_ones_the_larger(tmp_path):
    events = _training(tmp_path, [8] * 200 + [16] * 40 + [32] * 40)
    timeline = events.timeline()
    trainer = find_trainer(timeline)
    edges = trainer.update_end_ns
    batches = find_batches(trainer, edges, timeline.table("totals"))

    assert batches.usual(0, 279) == 8
    assert (batches.usual(199, 279), batches.sizes_within(199, 279)) == (32, (16, 32))
    assert (batches.usual(205, 215), batches.sizes_within(205, 215)) == (16, None)
    assert (batches.usual(279, 279), batches.sizes_within(279, 279)) == (None, None)


@pytest.mark.parametrize(
    "sizes",
    [([32] * 19 + [7]) * 6, [32, 7] * 60, [32] * 120, [7] * 120],
    ids=["one rest in twenty", "every other step a rest", "one size", "no full batch"],
)
def test_the_rest_of_an_epoch_is_no_other_batch_size(tmp_path, sizes):
    steps = _steps(_training(tmp_path, sizes))

    assert steps.batch_size == max(sizes)
    assert (steps.batch_sizes, steps.size_changes) == (None, ())


def test_rests_do_not_hide_that_the_size_of_the_others_changes(tmp_path):
    steps = _steps(_training(tmp_path, ([16] * 4 + [3]) * 10 + ([64] * 4 + [5]) * 10))

    assert steps.size_changes == (SizeChange(step=51, before=16, after=64),)


def test_sizes_that_vary_from_batch_to_batch_are_a_range_and_no_changes(tmp_path):
    sizes = np.random.default_rng(0).integers(8, 33, 400).tolist()

    steps = _steps(_training(tmp_path, sizes))

    assert steps.batch_sizes is not None
    assert steps.batch_sizes[0] <= 9 < 31 <= steps.batch_sizes[1]
    assert steps.size_changes == ()


def test_loaders_of_two_sizes_that_are_read_together_are_a_range(tmp_path):
    events = Events(tmp_path)
    for iterator in (0, 1):
        events.loader(iterator=iterator, loader=iterator)
    for k in range(60):
        events.wait(20 * k, 20 * k + 1, k, samples=32)
        events.wait(20 * k + 1, 20 * k + 2, k, iterator=1, samples=64)
        events.backward(20 * k + 5, 20 * k + 17)
        events.update(20 * k + 18, 20 * k + 20)

    steps = _steps(events)

    assert (steps.batch_sizes, steps.size_changes) == ((32, 64), ())


def test_steps_that_were_only_counted_count_for_the_step_of_a_change(tmp_path):
    timeline = _training(tmp_path, GROWING).timeline()
    trainer = find_trainer(timeline)
    edges = trainer.update_end_ns
    counted = pl.DataFrame({"start_ns": [int(edges[50])], "end_ns": [int(edges[52])], "steps": [1000]})

    batches = find_batches(trainer, edges, counted)

    assert [change.step for change in batches.changes] == [41, 1081]


def _closures(folder: Path, *, before: int, evaluations: int) -> Steps:
    """Steps without a loader: passes before the update, and a closure's inside of it."""
    events = Events(folder)
    for k in range(20):
        begin = 100 * k
        for number in range(before + evaluations):
            events.forward(begin + 8 * number + 1, begin + 8 * number + 3, samples=8)
            events.backward(begin + 8 * number + 3, begin + 8 * number + 6)
        events.update(begin + 8 * before, begin + 95)
    return _steps(events)


@pytest.mark.parametrize("evaluations", [1, 5])
def test_a_closures_evaluations_are_of_one_batch(tmp_path, evaluations):
    steps = _closures(tmp_path, before=0, evaluations=evaluations)

    assert set(steps.samples.tolist()) == {8.0}
    assert (steps.batch_size, steps.batches_per_step) == (8, 1)


def test_passes_before_a_closures_may_be_of_its_batch_or_of_others(tmp_path):
    steps = _closures(tmp_path, before=1, evaluations=1)

    assert np.isnan(steps.samples).all()
    assert (steps.batch_size, steps.batches_per_step) == (None, None)


def test_several_sizes_are_confirmed_where_producers_were_asked_for_each(tmp_path):
    m = measure_recording(SOURCE.read(make_recording(tmp_path, Training(workers=2, batch_size=32, epoch_steps=50, epoch_sizes=(8, 16)))))

    assert m.steps.batch_sizes is not None
    assert m.steps.batch_size_from == "the loader's index counts"
