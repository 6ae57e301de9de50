"""Several loaders in turns, apart."""

from __future__ import annotations

import pytest

from made_events import Events
from slowstep.analyses.measure_recording import measure_recording

TURNS = 60


def rows(tmp_path, sizes: tuple[int, ...], made_ms: tuple[float, ...], epochs: int = 1):
    """What is known of loaders that are read in turns, made anew for each epoch; batches of 0.1 ms and of so many more."""
    events = Events(tmp_path)
    now = 0.0
    for epoch in range(epochs):
        for k, size in enumerate(sizes):
            number = epoch * len(sizes) + k
            events.loader(iterator=number, loader=number)
            events.trainer.lines[-1] |= {"dataset": "Task", "batch_size": size, "collate": "collate"}
        for turn in range(TURNS // epochs):
            k = turn % len(sizes)
            iterator, batch, wait = epoch * len(sizes) + k, turn // len(sizes), 0.1 + made_ms[k]
            events.fetch(now, now + wait, batch, cpu=wait, iterator=iterator)
            now = events.step(now, batch=batch, iterator=iterator, wait=wait, length=10)
    return measure_recording(events.timeline(), warmup=0).input.made_by_loader


def test_each_loader_has_its_own_batches(tmp_path):
    found = rows(tmp_path, (16, 32, 64), (0.1, 0.2, 3.0))

    assert [row.each_ns / 1e6 for row in found] == pytest.approx([0.2, 0.3, 3.1])
    assert [row.batches for row in found] == pytest.approx([TURNS / 3] * 3, abs=1)
    # In each third step, but for the iterator's first.
    assert (found[2].ns > 0).sum() == pytest.approx(TURNS / 3 - 1, abs=1)


def test_a_loader_that_is_made_anew_for_each_epoch_is_one(tmp_path):
    (found,) = rows(tmp_path, (16,), (1.0,), epochs=6)

    assert found.each_ns / 1e6 == pytest.approx(1.1)


@pytest.mark.parametrize("epochs", [1, 3])
def test_loaders_of_the_same_make_that_are_read_in_turns_are_two(tmp_path, epochs):
    found = rows(tmp_path, (16, 16), (0.1, 3.0), epochs)

    assert [row.each_ns / 1e6 for row in found] == pytest.approx([0.2, 3.1])
