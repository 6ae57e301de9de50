from __future__ import annotations

import numpy as np

from made_events import Events, at
from made_recordings import MS
from slowstep.analyses.measurements import measure
from slowstep.analyses.stragglers import Stragglers, replay
from slowstep.record.format import SLOW_SAMPLE


def test_a_replay_without_slow_samples_waits_for_what_is_not_ready():
    made, body = np.full(6, 30.0), np.full(6, 20.0)

    assert replay(made, body, workers=1, prefetch=2).tolist() == [30, 10, 10, 10, 10, 10]
    assert replay(made, body, workers=2, prefetch=2).tolist() == [30, 0, 0, 0, 0, 0]


def test_a_worker_is_told_of_a_batch_once_an_earlier_one_was_received():
    made, body = np.array([1.0, 1.0, 1.0, 100.0, 1.0]), np.full(5, 50.0)

    # Batch 3 is begun when batch 1 was received, at 51: its 100 ms end at 151, when it is asked for.
    assert replay(made, body, workers=1, prefetch=2).tolist() == [1, 0, 0, 0, 0]
    assert replay(made, body, workers=1, prefetch=1).tolist() == [1, 0, 0, 50, 0]


def _serial(folder, *, delay: float) -> Stragglers | None:
    """Forty steps whose batches take 4 ms; every eighth holds a sample of 41 ms, in which the thread may have waited for a core."""
    events = Events(folder)
    events.loader()
    now = 0.0
    for step in range(40):
        slow = 40.0 * (step % 8 == 7)
        events.fetch(now, now + 4 + slow, step, cpu=4 + slow - (delay if slow else 0), delay=delay if slow else 0.0)
        if slow:
            events.trainer.event(SLOW_SAMPLE, at(now), at(now + 41), 5, MS, step, thread=100)
        events.wait(now, now + 4.1 + slow, step)
        now = now + 4.1 + slow
        events.backward(now + 1, now + 9)
        events.update(now + 9, now + 10)
        now += 10
    return measure(events.timeline(), warmup=3).over_time.stragglers


def test_without_workers_the_excess_of_slow_samples_is_what_would_not_be_waited(tmp_path):
    found = _serial(tmp_path, delay=0)

    assert found is not None
    assert (found.named, found.steps) == (((5, found.count),), found.count)
    assert found.count in (4, 5)  # the last is cut off with its step
    assert found.removed_ns.max() == 40 * MS
    assert np.count_nonzero(found.removed_ns) == found.count


def test_a_sample_that_waited_for_a_core_is_not_slow(tmp_path):
    assert _serial(tmp_path, delay=35) is None
