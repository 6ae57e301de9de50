"""Whose it is when a loader's workers end, or what its iterator holds is freed: the training's, or a validation's."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_events import Events
from made_recordings import MS
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.parts import VALIDATION, Part, PartKind

STEPS = 60
EVERY = 10
# Whole periods only: of the five epochs' beginnings four are looked at.
IN_WINDOW = 4
UNKNOWN = 0
TRAINING, VALIDATING = 1, 2


def measured(folder: Path, *, ends: int, collects: tuple[int, float] | None = None) -> Measurements:
    """Every ten steps two batches of a validation's loader, each worked on for 3 ms, then an end of 20 ms of the iterator `ends`.

    `collects`: at the begin of each new iterator of the training, garbage of that generation, ms.
    """
    events, now, iterator = Events(folder), 0.0, TRAINING
    events.loader(iterator=iterator, loader=1, workers=1)
    for step in range(STEPS):
        if step and step % EVERY == 0:
            events.loader(iterator=VALIDATING + 10 * step, loader=2, workers=1, begin=now, end=now + 1)
            for batch in range(2):
                events.wait(now + 1, now + 2, batch, iterator=VALIDATING + 10 * step)
                now += 4
            ended = {TRAINING: iterator, VALIDATING: VALIDATING + 10 * step}.get(ends, UNKNOWN)
            events.shutdown(now + 1, now + 21, iterator=ended)
            now += 22
            iterator = TRAINING + 10 * step
            events.loader(iterator=iterator, loader=1, workers=1, begin=now, end=now + 5)
            if collects is not None:
                events.collection(now + 1, now + 1 + collects[1], generation=collects[0])
                now += collects[1]
            now += 5
        now = events.step(now, batch=step % EVERY, iterator=iterator)
    return measure_recording(events.timeline(), warmup=0)


def _total_ms(m: Measurements, part: Part) -> float:
    return m.ledger.total_of(part) / MS


def test_the_end_of_a_validations_workers_is_the_validations(tmp_path):
    m = measured(tmp_path, ends=VALIDATING)

    # From its start to its workers' end: 9 ms with the batches that are worked on, then 20.
    assert _total_ms(m, VALIDATION) == pytest.approx(IN_WINDOW * 29, abs=1)
    assert _total_ms(m, Part("preprocess", PartKind.LOADER_END)) == 0
    assert m.over_time.restarts.start_ns.sum() == pytest.approx(IN_WINDOW * 5 * MS)


@pytest.mark.parametrize("ends", [TRAINING, UNKNOWN])
def test_that_of_the_trainings_workers_and_of_those_of_older_recordings_is_the_loaders(tmp_path, ends):
    m = measured(tmp_path, ends=ends)

    assert _total_ms(m, Part("preprocess", PartKind.LOADER_END)) == pytest.approx(IN_WINDOW * 20)
    assert m.over_time.restarts.start_ns.sum() == pytest.approx(IN_WINDOW * 25 * MS)


@pytest.mark.parametrize(("generation", "counted"), [(0, IN_WINDOW), (1, IN_WINDOW), (2, 0)])
def test_young_garbage_collected_while_an_iterator_is_made_goes_with_it(tmp_path, generation, counted):
    m = measured(tmp_path, ends=TRAINING, collects=(generation, 3.0))

    assert m.over_time.restarts.collected_ns.sum() == pytest.approx(counted * 3 * MS)
