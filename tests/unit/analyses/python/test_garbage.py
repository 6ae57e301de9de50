"""Garbage collections are charged as themselves, and what they interrupt is measured without them."""

from __future__ import annotations

import pytest

from made_events import Events, at
from made_recordings import MS, TRAINER_THREAD, Training, make_recording
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.parts import PartKind
from slowstep.record.writing.format import COLLECTION, SLOW_SAMPLE
from slowstep.sources._source import PLAIN
from slowstep.sources.recording import SOURCE

STEPS = 40
SECOND_EPOCH = 23
PAUSE = 40.0


def _collect(events: Events, begin: float, end: float, *, worker: int | None = None) -> None:
    writer, thread = (events.trainer, TRAINER_THREAD) if worker is None else (events._worker(worker), 200 + worker)
    writer.event(COLLECTION, at(begin), at(end), 2, 0, thread=thread)


def _serial(folder, *, pause: float) -> Measurements:
    """Batches of 3 ms samples and 1 ms collate; in every fourth collate, and in its sample, garbage is collected for `pause` ms.

    One of those is the first batch of a second epoch.
    """
    events = Events(folder)
    events.loader()
    now = 0.0
    for step in range(STEPS):
        epoch, batch = divmod(step, SECOND_EPOCH)
        if step == SECOND_EPOCH:
            events.loader(iterator=1, begin=now, end=now)
        held = pause * (step % 4 == 3)
        end = now + 4 + 2 * held
        if held:
            _collect(events, now + 1, now + 1 + held)
            _collect(events, end - 0.5 - held, end - 0.5)
            events.trainer.event(SLOW_SAMPLE, at(now), at(now + 1.5 + held), 5, MS, batch, thread=100)
        events.fetch(now, end, batch, cpu=4 + 2 * held, collate=1 + held, iterator=epoch)
        events.wait(now, end + 0.1, batch, iterator=epoch)
        now = end + 0.1
        events.backward(now + 1, now + 9)
        events.update(now + 9, now + 10)
        now += 10
    return measure_recording(events.timeline(), warmup=4)


def test_a_collection_inside_a_collate_is_its_own_part_of_the_ledger(tmp_path):
    clean, with_garbage = (_serial(tmp_path / str(pause), pause=pause) for pause in (0.0, PAUSE))

    pauses = with_garbage.ledger.of("output", PartKind.COLLECTION)
    assert set(pauses.tolist()) == {0.0, 2 * PAUSE * MS}
    assert with_garbage.ledger.ns.sum(axis=0) == pytest.approx(with_garbage.step_ns)
    for part in (PartKind.SAMPLES, PartKind.COLLATE):
        mean = clean.ledger.of("preprocess", part).mean()
        assert with_garbage.ledger.of("preprocess", part).mean() == pytest.approx(mean, rel=0.01)
    assert clean.ledger.of("output", PartKind.COLLECTION).sum() == 0


def test_what_is_collected_while_the_loop_asks_for_batches_is_known_apart(tmp_path):
    m = _serial(tmp_path / "in waits", pause=PAUSE)

    assert m.python.garbage.in_waits_ns == pytest.approx(2 * PAUSE * MS / 4, rel=0.1)


def test_what_a_batch_takes_is_known_without_the_garbage_collected_meanwhile(tmp_path):
    clean, with_garbage = (_serial(tmp_path / str(pause), pause=pause) for pause in (0.0, PAUSE))

    for name in ("wall_ns", "cpu_ns", "collate_ns", "collecting_ns"):
        assert getattr(with_garbage.input.demand, name) == pytest.approx(getattr(clean.input.demand, name)), name
    assert clean.input.filling_ns.any()
    assert with_garbage.input.filling_ns == pytest.approx(clean.input.filling_ns)
    making = [[p.making_ns_per_sample for p in m.input.facts.passes] for m in (with_garbage, clean)]
    assert making[0] == pytest.approx(making[1])
    blocked = [p.blocked_ns_per_sample for p in with_garbage.input.facts.passes]
    assert blocked == pytest.approx([0.0, 0.0])


def test_a_collection_that_was_held_up_takes_its_share_of_the_waiting_for_a_core_with_it(tmp_path):
    events = Events(tmp_path)
    events.loader()
    now = 0.0
    for step in range(STEPS):
        events.fetch(now, now + 26, step, cpu=12, delay=12)
        _collect(events, now + 2, now + 20)
        events.wait(now, now + 26, step)
        events.backward(now + 27, now + 30)
        events.update(now + 30, now + 31)
        now += 31
    m = measure_recording(events.timeline(), warmup=4)

    # 8 ms are left of the fetch, and the 2 in which it was blocked are all among them.
    assert m.ledger.of("read") == pytest.approx(2 * MS)
    assert m.ledger.of("preprocess", PartKind.SAMPLES) == pytest.approx(3 * MS)
    assert m.ledger.of("preprocess", PartKind.PRODUCER_CORE_WAIT) == pytest.approx(3 * MS)
    assert m.ledger.of("output", PartKind.COLLECTION) == pytest.approx(18 * MS)


def test_what_a_loops_own_input_was_blocked_is_as_without_the_garbage_collected_beside_it(tmp_path):
    loop = {"loader": False, "workers": 0, "input_ms": 10.0, "input_blocked_ms": 6.0, "stack_period_ms": 3.0}
    recordings = (make_recording(tmp_path / str(c), Training(**loop, collects=c)) for c in (None, (1, 8.0)))
    clean, with_garbage = (measure_recording(SOURCE.read(recording, PLAIN)) for recording in recordings)

    assert with_garbage.ledger.of("output", PartKind.COLLECTION).mean() == pytest.approx(8 * MS)
    assert clean.ledger.of("read").mean() == pytest.approx(6 * MS, rel=0.05)
    assert with_garbage.ledger.of("read").mean() == pytest.approx(clean.ledger.of("read").mean(), rel=0.05)


def test_a_sample_in_which_garbage_was_collected_is_no_straggler(tmp_path):
    assert _serial(tmp_path, pause=PAUSE).over_time.stragglers is None


def test_in_a_worker_a_collection_is_a_part_of_the_wait_and_of_making_the_batch(tmp_path):
    events = Events(tmp_path)
    events.loader(workers=1)
    now = 0.0
    for step in range(STEPS):
        events.fetch(now, now + 25, step, worker=0, cpu=25, collate=12)
        _collect(events, now + 14, now + 24, worker=0)
        now = events.step(now, batch=step, wait=25, length=30)
    m = measure_recording(events.timeline(), warmup=4)

    waited = m.ledger.of("preprocess", PartKind.SAMPLES, PartKind.COLLATE, PartKind.PRODUCER_COLLECTION).mean()
    assert m.ledger.of("preprocess", PartKind.PRODUCER_COLLECTION).mean() == pytest.approx(waited * 10 / 25)
    assert m.ledger.of("output", PartKind.COLLECTION).sum() == 0
    assert m.input.demand.wall_ns == pytest.approx(25 * MS)
    assert m.input.demand.collate_ns == pytest.approx(2 * MS)
    assert m.python.garbage.in_workers_ns == pytest.approx(10 * MS)
    assert m.python.garbage.kinds == ()


def test_a_collection_in_a_gap_and_in_a_body_leaves_the_rest_as_it_was(tmp_path):
    events = Events(tmp_path)
    events.loader()
    now = 0.0
    for step in range(STEPS):
        end = events.step(now, batch=step, length=20)
        _collect(events, now + 4, now + 7)
        _collect(events, end + 1, end + 3)
        now = end + 5
    m = measure_recording(events.timeline(), warmup=4)

    assert m.ledger.of("output", PartKind.COLLECTION) == pytest.approx(5 * MS)
    # Of a body of 19 ms, in whose backward 3 ms of garbage were collected.
    assert m.ledger.of("compute").mean() == pytest.approx(16 * MS)
    assert m.ledger.of("unattributed") == pytest.approx(3 * MS)
    assert (m.python.garbage.count, m.python.garbage.kinds[0].generation) == (2 * m.steps.count, 2)
