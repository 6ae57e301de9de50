"""What a loader's workers need per step, where several loaders are read in turns."""

from __future__ import annotations

import pytest

from made_events import Events, at
from made_recordings import MS
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.record.writing import format as fmt

STEPS, MAKING_MS, STEP_MS = 60, (1.0, 48.0), (12.0, 40.0)


def _in_turns(tmp_path, *, datasets: tuple[str, str] = ("Clips", "Clips")) -> Measurements:
    """A fast and a slow loader, each with a worker, in turns: the fast one's idles, and each of the slow one's batches is waited for."""
    events = Events(tmp_path)
    for number in (0, 1):
        events.loader(iterator=number, loader=number, workers=1)
        events.trainer.lines[-1] |= {"dataset": datasets[number], "batch_size": 16, "workers": [200 + number]}
    now = 0.0
    for step in range(STEPS):
        number, batch = step % 2, step // 2
        wait = 26.0 if number else 0.5
        making = MAKING_MS[number]
        if number:
            events.fetch(now + wait - 1 - making, now + wait - 1, batch, worker=1, cpu=making)
        else:
            events.fetch(now - 3, now - 2, batch, worker=0, cpu=making)
            events.workers[0].event(fmt.IDLE, at(now - 2), at(now + sum(STEP_MS) - 3), thread=200)
        now = events.step(now, batch=batch, iterator=number, wait=wait, length=STEP_MS[number])
    return measure_recording(events.timeline(), warmup=0)


def test_of_two_loaders_in_turns_the_demand_is_that_of_the_one_that_is_waited_for_most(tmp_path):
    demand = _in_turns(tmp_path).input.demand

    assert demand.batches == pytest.approx(0.5, abs=0.02)
    assert demand.wall_ns == pytest.approx(24 * MS, rel=0.05)
    assert (demand.workers, demand.idle_share) == (1, 0.0)


def test_what_the_other_loaders_workers_need_is_known_beside_it(tmp_path):
    demand = _in_turns(tmp_path).input.demand

    assert demand.others_ns == demand.others_cpu_ns == pytest.approx(0.5 * MS, rel=0.05)
    assert demand.cpu_ns == pytest.approx(24.5 * MS, rel=0.05)


@pytest.mark.parametrize(("datasets", "is_named"), [(("Clips", "Clips"), False), (("Texts", "Clips"), True)])
def test_the_loader_that_is_waited_for_most_is_known_by_its_data_set_where_that_is_its_own(tmp_path, datasets, is_named):
    loader = _in_turns(tmp_path, datasets=datasets).input.loader

    assert (loader.dataset, loader.num_workers, loader.read_together, loader.is_named) == ("Clips", 1, 2, is_named)


def _restarted(tmp_path, *, between_ms: float) -> Measurements:
    """A worker that is started anew every 10 steps, for which nobody makes batches for 100 ms; after each batch it takes its time."""
    events = Events(tmp_path)
    events.loader(iterator=0, loader=0, workers=1)
    events.trainer.lines[-1] |= {"dataset": "Clips", "batch_size": 16, "workers": [200 + number for number in range(STEPS // 10)]}
    now = 0.0
    for step in range(STEPS):
        number, first = step // 10, step % 10 == 0
        wait = 100.0 if first else 12.0
        events.fetch(now + wait - 6, now + wait - 1, step, worker=number, cpu=5.0)
        events.workers[number].event(fmt.IDLE, at(now + wait - 1 + between_ms), at(now + wait + 20 + 6), thread=200 + number)
        now = events.step(now, batch=step, iterator=0, wait=wait, length=wait + 20)
    return measure_recording(events.timeline(), warmup=0)


@pytest.mark.parametrize("between_ms", [0.0, 4.0])
def test_what_workers_do_between_batches_holds_nothing_of_their_starts(tmp_path, between_ms):
    demand = _restarted(tmp_path, between_ms=between_ms).input.demand

    assert demand.between_batches_ns == pytest.approx(between_ms * MS, abs=0.5 * MS)
