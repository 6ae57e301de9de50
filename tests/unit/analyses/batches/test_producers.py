from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_events import Events
from made_recordings import MS, Training, make_recording
from slowstep.analyses.batches.producers import ACCOUNT, PART_STAGE, Fetches, WaitParts, divide_waits, find_fetches
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.functions import read_stacks
from slowstep.analyses.steps.suspensions import NO_SUSPENSIONS
from slowstep.analyses.steps.trainer import find_trainer
from slowstep.parts import PartKind
from slowstep.record.writing import format as fmt
from slowstep.sources.recording import SOURCE
from slowstep.timeline.timeline import Timeline

COLLATE, CORE, LOCK = PartKind.COLLATE, PartKind.PRODUCER_CORE_WAIT, PartKind.LOCK_WAIT
SAMPLES, STORAGE, UNSEEN = PartKind.SAMPLES, PartKind.STORAGE, PartKind.BLOCKED
TRANSPORT, STARTUP, SAMPLER = PartKind.TRANSPORT, PartKind.LOADER_START, PartKind.SAMPLER


def _divided(timeline: Timeline) -> WaitParts:
    return divide_waits(timeline, find_trainer(timeline), _fetches(timeline))


def _fetches(timeline: Timeline) -> Fetches:
    trainer = find_trainer(timeline)
    return find_fetches(timeline, trainer, NO_SUSPENSIONS, read_stacks(timeline, trainer.process, trainer.thread))


def _parts(waits: WaitParts, number: int) -> dict[PartKind, float]:
    """The parts of one wait in ms, those that are there."""
    return {name: ns / MS for name, ns in zip(PART_STAGE, waits.parts[number].tolist(), strict=True) if ns}


def _one_wait(folder: Path, **fetch: Any) -> dict[str, float]:
    """The second wait of a loader with one worker, 12 ms long; its batch is made in the first 10 ms of it."""
    events = Events(folder)
    events.loader(workers=1)
    events.fetch(0, 4, 0, worker=0, cpu=4)
    events.step(0, batch=0, wait=5, length=20)
    events.fetch(20, 30, 1, worker=0, **fetch)
    events.step(20, batch=1, wait=12, length=30)
    return _parts(_divided(events.timeline()), 1)


@pytest.mark.parametrize(
    ("fetch", "expected"),
    [
        ({"cpu": 10}, {SAMPLES: 10}),
        ({"cpu": 10, "collate": 4}, {SAMPLES: 6, COLLATE: 4}),
        ({"cpu": 2, "storage": 4096}, {SAMPLES: 2, STORAGE: 8}),
        ({"cpu": 2, "storage": 0}, {SAMPLES: 2, UNSEEN: 8}),
        ({"cpu": 2, "delay": 3, "storage": 1}, {SAMPLES: 2, CORE: 3, STORAGE: 5}),
        ({"cpu": 2, "other": 6, "storage": 1}, {SAMPLES: 2, LOCK: 6, STORAGE: 2}),
        ({"cpu": 2, "other": 50}, {SAMPLES: 2, LOCK: 8}),
        ({"cpu": 50, "delay": 50, "other": 50}, {SAMPLES: 10}),
    ],
    ids=["computes", "collates", "storage", "sleeps", "queues for a core", "threads and storage", "many threads", "overshooting clocks"],
)
def test_a_wait_is_divided_by_the_account_of_the_fetch_that_it_waited_for(tmp_path, fetch, expected):
    assert _one_wait(tmp_path, **fetch) == pytest.approx({**expected, TRANSPORT: 2})


def test_time_before_the_fetch_goes_by_the_mix_of_what_the_producer_did_then(tmp_path):
    events = Events(tmp_path)
    events.loader(workers=1)
    events.fetch(0, 4, 0, worker=0, cpu=4)
    events.step(0, batch=0, wait=5, length=20)
    events.fetch(20, 26, 7, worker=0, cpu=0)
    events.fetch(26, 30, 1, worker=0, cpu=4)
    events.step(20, batch=1, wait=10, length=30)

    parts = _parts(_divided(events.timeline()), 1)

    # The three fetches took 14 ms, 8 of them computing.
    assert parts == pytest.approx({SAMPLES: 4 + 6 * 8 / 14, UNSEEN: 6 * 6 / 14})


def test_a_batch_that_was_ready_is_transport_alone(tmp_path):
    events = Events(tmp_path)
    events.loader(workers=1)
    events.fetch(0, 4, 0, worker=0, cpu=4)
    events.fetch(4, 8, 1, worker=0, cpu=4)
    events.step(0, batch=0, wait=5, length=20)
    events.step(20, batch=1, wait=2, length=20)

    assert _parts(_divided(events.timeline()), 1) == pytest.approx({TRANSPORT: 2})


def test_before_the_first_fetch_of_an_iterator_the_loader_starts_up(tmp_path):
    events = Events(tmp_path)
    events.loader(workers=1)
    events.fetch(6, 10, 0, worker=0, cpu=4)
    events.step(0, batch=0, wait=11, length=30)

    assert _parts(_divided(events.timeline()), 0) == pytest.approx({STARTUP: 6, SAMPLES: 4, TRANSPORT: 1})


def test_without_workers_what_comes_before_the_first_fetch_is_drawing_too(tmp_path):
    events = Events(tmp_path)
    events.loader(workers=0)
    events.fetch(6, 10, 0, cpu=4)
    events.step(0, batch=0, wait=11, length=30)

    assert _parts(_divided(events.timeline()), 0) == pytest.approx({SAMPLER: 6, SAMPLES: 4, PartKind.LOADER_OVERHEAD: 1})


def test_without_workers_the_training_thread_is_the_producer(tmp_path):
    events = Events(tmp_path)
    events.loader(workers=0)
    for k in range(3):
        events.fetch(20 * k, 20 * k + 8, k, cpu=6, storage=1, collate=2)
        events.step(20 * k, batch=k, wait=9, length=18)

    waits = _divided(events.timeline())

    assert waits.matched.all()
    assert _parts(waits, 1) == pytest.approx({SAMPLES: 4, COLLATE: 2, STORAGE: 2, PartKind.LOADER_OVERHEAD: 1})


def test_with_persistent_workers_batch_indices_that_begin_anew_find_their_own_epoch(tmp_path):
    events = Events(tmp_path)
    for epoch in range(3):
        begin = 100.0 * epoch
        events.loader(iterator=epoch, workers=1, begin=begin, end=begin)
        for k in range(2):
            events.fetch(begin + 20 * k, begin + 20 * k + 5, k, worker=0, cpu=5 - epoch)
            events.step(begin + 20 * k, batch=k, iterator=epoch, wait=6, length=18)

    waits = _divided(events.timeline())

    assert [_parts(waits, 2 * epoch + 1)[SAMPLES] for epoch in range(3)] == pytest.approx([5, 4, 3])


def test_batches_received_out_of_order_find_their_own_fetch(tmp_path):
    events = Events(tmp_path)
    events.loader(workers=2)
    events.fetch(0, 18, 0, worker=0, cpu=18)
    events.fetch(0, 4, 1, worker=1, cpu=1)
    events.step(0, batch=1, wait=5, length=12)
    events.step(12, batch=0, wait=7, length=12)

    waits = _divided(events.timeline())

    assert UNSEEN in _parts(waits, 0)
    assert _parts(waits, 1) == pytest.approx({SAMPLES: 6, TRANSPORT: 1})


def test_a_failed_fetch_makes_no_batch(tmp_path):
    events = Events(tmp_path)
    events.loader(workers=1)
    events.step(0, batch=0, wait=5, length=10)
    events.fetch(0, 4, 0, worker=0, cpu=4)
    writer = events.workers[0]
    writer.records[0] = fmt.RECORD.pack(*fmt.RECORD.unpack(writer.records[0])[:6], fmt.FAILED, 0, fmt.FETCH)

    assert not _divided(events.timeline()).matched.any()


@pytest.mark.parametrize("missing", [(0,), (0, 1, 2), (0, 1, 2, 3)], ids=["one", "most", "all"])
def test_waits_for_workers_that_left_no_record_are_unmatched_and_measured(tmp_path, missing):
    m = _measured(tmp_path, workers=4, getitem_ms=110, cores=8, missing_workers=missing)

    assert m.input.unmatched_share > 0.2
    assert m.ledger.share("preprocess", PartKind.INPUT_WAIT) > 0.15


def test_parts_of_every_wait_sum_to_its_length(tmp_path):
    training = Training(workers=3, getitem_ms=50, blocked_ms=9, other_ms=5, jitter=0.5, epoch_steps=10, persistent=True)

    waits = _divided(SOURCE.read(make_recording(tmp_path, training)))

    np.testing.assert_allclose(waits.parts.sum(axis=1), waits.end_ns - waits.start_ns)
    assert (waits.parts >= 0).all()


def test_accounts_of_fetches_sum_to_their_wall_time(tmp_path):
    timeline = SOURCE.read(make_recording(tmp_path, Training(workers=2, blocked_ms=9, other_ms=5, jitter=0.5)))

    fetches = _fetches(timeline)

    assert fetches.account.shape == (len(fetches.start_ns), len(ACCOUNT))
    np.testing.assert_allclose(fetches.account.sum(axis=1), fetches.wall_ns)


def _measured(folder: Path, **changes: Any) -> Measurements:
    return measure_recording(SOURCE.read(make_recording(folder, Training(**changes))))


def test_demand_is_the_producers_time_per_step_whatever_the_batches_per_step(tmp_path):
    one = _measured(tmp_path / "one", workers=2, getitem_ms=8, collate_ms=2).input.demand
    four = _measured(tmp_path / "four", workers=2, getitem_ms=8, collate_ms=2, micro_batches=4).input.demand

    assert one.wall_ns == pytest.approx(10 * MS, rel=0.01)
    assert four.wall_ns == pytest.approx(40 * MS, rel=0.02)
    assert one.collate_ns == pytest.approx(2 * MS, rel=0.01)


def test_threads_that_a_fetch_waits_for_are_part_of_what_producers_need_of_the_cores(tmp_path):
    demand = _measured(tmp_path, workers=2, getitem_ms=4, collate_ms=1, other_ms=20).input.demand

    assert demand.cpu_ns == pytest.approx(25 * MS, rel=0.01)


def test_a_wait_of_the_training_process_without_a_fetch_of_its_own_was_spent_like_the_one_before(tmp_path):
    events = Events(tmp_path)
    events.loader(workers=0)
    events.fetch(0, 1, 0, cpu=1, collate=0.25)
    events.step(0, batch=0, wait=1, length=10)
    events.step(10, batch=1, wait=2, length=10)
    events.step(20, batch=2, wait=1, length=10)

    waits = _divided(events.timeline())

    assert _parts(waits, 1) == pytest.approx({SAMPLES: 1.5, COLLATE: 0.5})
