from __future__ import annotations

from pathlib import Path

import pytest

from made_events import Events
from slowstep.analyses.steps.loader_changes import LoaderChange, find_loader_changes
from slowstep.analyses.steps.steps import find_steps
from slowstep.analyses.steps.suspensions import NO_SUSPENSIONS
from slowstep.analyses.steps.trainer import find_trainer

ALONE, TWO = "a data set (0 workers)", "a data set (2 workers)"


def _changes(folder: Path, *epochs: tuple[int, int], overlap: bool = False) -> tuple[LoaderChange, ...]:
    """Of epochs of so many workers and steps of 20 ms; with `overlap` each step reads the loader of the epoch before, too."""
    events, k = Events(folder), 0
    for number, (workers, steps) in enumerate(epochs):
        events.loader(iterator=number, loader=number, workers=workers, begin=20 * k, end=20 * k)
        for _ in range(steps):
            if overlap and number:
                events.wait(20 * k, 20 * k + 0.5, k, iterator=number - 1)
            events.wait(20 * k + 0.5, 20 * k + 1, k, iterator=number)
            events.backward(20 * k + 5, 20 * k + 17)
            events.update(20 * k + 18, 20 * k + 20)
            k += 1
    timeline = events.timeline()
    trainer = find_trainer(timeline)
    return find_loader_changes(timeline, trainer, find_steps(trainer, timeline.table("totals"), NO_SUSPENSIONS, warmup=0))


def test_another_loader_is_told_with_the_step_from_which_on_it_is_read(tmp_path):
    assert _changes(tmp_path, (0, 30), (2, 40)) == (LoaderChange(step=31, before=ALONE, after=TWO, inside=True),)


@pytest.mark.parametrize("epochs", [((2, 20),) * 4, ((0, 30), (2, 3), (0, 30))], ids=["epochs of one", "a few batches of another"])
def test_epochs_of_one_loader_and_a_look_into_another_are_no_change(tmp_path, epochs):
    assert _changes(tmp_path, *epochs) == ()


def test_loaders_that_are_read_beside_each_other_are_no_change(tmp_path):
    assert _changes(tmp_path, (0, 30), (2, 40), overlap=True) == ()
