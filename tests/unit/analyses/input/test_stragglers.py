from __future__ import annotations

import numpy as np
import pytest

from made_events import Events, at
from made_recordings import MS
from slowstep.analyses.input.stragglers import Stragglers, replay
from slowstep.analyses.measure_recording import measure_recording
from slowstep.record.writing.format import SLOW_SAMPLE

# Of what a data set without indices gives.
UNKNOWN = -1
# Two steps in five, drawn once.
OFTEN_BY_CHANCE = np.flatnonzero(np.random.default_rng(0).random(120) < 0.4).tolist()


def test_a_replay_without_slow_samples_waits_for_what_is_not_ready():
    made, body = np.full(6, 30.0), np.full(6, 20.0)

    assert replay(made, body, workers=1, prefetch=2).tolist() == [30, 10, 10, 10, 10, 10]
    assert replay(made, body, workers=2, prefetch=2).tolist() == [30, 0, 0, 0, 0, 0]


def test_a_worker_is_told_of_a_batch_once_an_earlier_one_was_received():
    made, body = np.array([1.0, 1.0, 1.0, 100.0, 1.0]), np.full(5, 50.0)

    # Batch 3 is begun when batch 1 was received, at 51: its 100 ms end at 151, when it is asked for.
    assert replay(made, body, workers=1, prefetch=2).tolist() == [1, 0, 0, 0, 0]
    assert replay(made, body, workers=1, prefetch=1).tolist() == [1, 0, 0, 50, 0]


def test_a_worker_that_keeps_the_lock_hands_the_batch_before_over_when_it_is_done():
    made, body = np.array([1.0, 1.0, 1.0, 100.0, 1.0]), np.full(5, 50.0)
    held = np.array([0.0, 0.0, 0.0, 90.0, 0.0])

    # Batch 3 is begun when batch 1 was received, at 51; batch 2, asked for at 101, is handed over at 141.
    assert replay(made, body, workers=1, prefetch=2, held_ns=held).tolist() == [1, 0, 40, 0, 0]


def test_a_worker_that_is_not_told_of_a_batch_yet_holds_no_other_up():
    made, body = np.array([1.0, 1.0, 1.0, 100.0, 1.0]), np.full(5, 50.0)
    held = np.array([0.0, 0.0, 0.0, 90.0, 0.0])

    assert replay(made, body, workers=1, prefetch=1, held_ns=held).tolist() == replay(made, body, workers=1, prefetch=1).tolist()


def _one_worker(folder, *, keeps_the_lock: bool) -> Stragglers | None:
    """Forty steps of 20 ms; every eighth batch holds a sample of 71 ms, and its worker has handed over the batch before it, or has not."""
    events = Events(folder)
    events.loader(workers=1)
    free, asked = 0.0, 0.0
    received: list[float] = []
    for batch in range(40):
        begin = max(free, received[batch - 2] if batch >= 2 else 0.0)
        slow = 70.0 * (batch % 8 == 7)
        free = begin + 3 + slow
        events.fetch(begin, free, batch, worker=0, cpu=3 + slow)
        if slow:
            events.workers[0].event(SLOW_SAMPLE, at(begin), at(begin + 71), 5, MS, batch, thread=200)
        following = batch % 8 == 6 and keeps_the_lock
        # The slow batch is begun when the one before the one asked for was received.
        now = max(asked, free) + 0.5 if not following else max(asked, max(free, received[batch - 1]) + 71) + 0.5
        events.wait(asked, now, batch)
        events.backward(now + 1, now + 19)
        events.update(now + 19, now + 20)
        received.append(now)
        asked = now + 20
    return measure_recording(events.timeline(), warmup=3).over_time.stragglers


def test_what_a_slow_sample_delays_is_counted_where_it_delays_the_batch_before_it(tmp_path):
    itself, before = _one_worker(tmp_path / "itself", keeps_the_lock=False), _one_worker(tmp_path / "before", keeps_the_lock=True)

    assert itself is not None
    assert before is not None
    # Two steps hide what the batch itself takes longer, one step what its worker keeps the batch before it.
    assert itself.removed_ns.sum() / itself.count == pytest.approx(33 * MS, rel=0.05)
    assert before.removed_ns.sum() / before.count == pytest.approx(50 * MS, rel=0.05)
    assert not itself.keep_the_lock
    assert before.keep_the_lock


def _serial(folder, *, delay: float = 0, index: int | None = 5, count: int = 40, slow_steps=range(7, 1000, 8)) -> Stragglers | None:
    """So many steps whose batches take 4 ms; every eighth, or some others, hold a sample of 41 ms, each its own where no `index` is given,
    in which the thread may have waited for a core.
    """
    events = Events(folder)
    events.loader()
    now = 0.0
    for step in range(count):
        slow = 40.0 * (step in slow_steps)
        events.fetch(now, now + 4 + slow, step, cpu=4 + slow - (delay if slow else 0), delay=delay if slow else 0.0)
        if slow:
            events.trainer.event(SLOW_SAMPLE, at(now), at(now + 41), step if index is None else index, MS, step, thread=100)
        events.wait(now, now + 4.1 + slow, step)
        now = now + 4.1 + slow
        events.backward(now + 1, now + 9)
        events.update(now + 9, now + 10)
        now += 10
    return measure_recording(events.timeline(), warmup=3).over_time.stragglers


def test_without_workers_the_excess_of_slow_samples_is_what_would_not_be_waited(tmp_path):
    found = _serial(tmp_path, delay=0)

    assert found is not None
    assert (found.named, found.steps) == (((5, found.count),), found.count)
    assert found.count in (4, 5)  # the last is cut off with its step
    assert found.removed_ns.max() == 40 * MS
    assert np.count_nonzero(found.removed_ns) == found.count


def test_a_sample_that_waited_for_a_core_is_not_slow(tmp_path):
    assert _serial(tmp_path, delay=35) is None


@pytest.mark.parametrize(
    ("index", "slow_steps", "is_found"),
    [
        (UNKNOWN, range(7, 120, 8), False),
        (UNKNOWN, (9, 12, 30, 33, 38, 61, 64, 89, 93, 110), True),
        (5, range(7, 120, 8), True),
        (None, range(7, 120, 8), False),
        (UNKNOWN, range(3, 120, 4), False),
        (UNKNOWN, OFTEN_BY_CHANCE, True),
        (None, (9, 12, 30, 33, 38, 61, 64, 89, 93, 110), True),
    ],
    ids=[
        "a stream that makes many at once",
        "some of a stream",
        "one sample of a data set",
        "the first of each chunk",
        "a short turn",
        "many of a stream",
        "some of a data set",
    ],
)
def test_samples_that_are_made_together_are_no_stragglers(tmp_path, index, slow_steps, is_found):
    assert (_serial(tmp_path, index=index, count=120, slow_steps=slow_steps) is not None) == is_found
