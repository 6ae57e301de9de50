from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_events import Events
from made_recordings import MS, SCRIPT, Training, make_recording
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.parts import CodePlace, Part, PartKind
from slowstep.record.writing.format import EVALUATING, NO_GRADIENT, SPAN, VALIDATION
from slowstep.sources.recording import SOURCE
from slowstep.stages import STAGES


def _measured(folder: Path, **changes: Any) -> Measurements:
    return measure_recording(SOURCE.read(make_recording(folder, Training(**changes))))


def _ms(ledger: Ledger) -> dict[Part, float]:
    return {part: float(ns.sum()) / MS for part, ns in zip(ledger.parts, ledger.ns, strict=True) if ns.sum() > 1}


def _ledger(events: Events) -> dict[Part, float]:
    return _ms(measure_recording(events.timeline(), warmup=0).ledger)


def test_a_body_is_forward_backward_and_optimizer_and_the_wait_before_it_input(tmp_path):
    events = Events(tmp_path)
    events.loader()
    for k in range(4):
        events.wait(10 * k, 10 * k + 2, k)
        events.backward(10 * k + 5, 10 * k + 8)
        events.update(10 * k + 8, 10 * k + 10)

    assert _ledger(events) == pytest.approx(
        {
            Part("preprocess", PartKind.INPUT_WAIT): 6,
            Part("compute", PartKind.FORWARD_AND_REST): 9,
            Part("compute", PartKind.BACKWARD): 9,
            Part("compute", PartKind.OPTIMIZER): 6,
        }
    )


def test_of_a_closure_inside_the_optimizer_forward_and_backward_are_not_the_optimizers(tmp_path):
    events = Events(tmp_path)
    events.loader()
    for k in range(4):
        events.wait(10 * k, 10 * k + 2, k)
        events.update(10 * k + 3, 10 * k + 10)
        events.backward(10 * k + 4, 10 * k + 8)

    assert _ledger(events) == pytest.approx(
        {
            Part("preprocess", PartKind.INPUT_WAIT): 6,
            Part("compute", PartKind.FORWARD_AND_REST): 6,
            Part("compute", PartKind.BACKWARD): 12,
            Part("compute", PartKind.OPTIMIZER): 6,
        }
    )


def test_a_second_optimizers_forward_after_the_first_ones_update_is_compute(tmp_path):
    ledger = _measured(tmp_path, critics=1).ledger

    assert ledger.share("unattributed") == 0
    assert ledger.share("output") == 0
    assert ledger.share("compute") > 0.9


def test_a_gap_that_nothing_names_is_unattributed(tmp_path):
    events = Events(tmp_path)
    events.loader()
    for k in range(4):
        events.step(20 * k, batch=k, length=10)

    assert _ledger(events)[Part("unattributed", PartKind.UNATTRIBUTED)] == pytest.approx(30)


def test_a_few_stacks_name_nothing(tmp_path):
    ledger = _measured(tmp_path, steps=60, epoch_steps=None, after_ms=5, stack_period_ms=400).ledger

    assert ledger.share("output") == 0
    assert ledger.share("unattributed") > 0.1


def test_waits_and_work_of_a_validation_are_output(tmp_path):
    m = _measured(tmp_path, validation=(20, 100))

    assert m.ledger.share("output", PartKind.VALIDATION) == pytest.approx(m.ledger.share("output"))
    assert m.ledger.of("output").sum() / m.ledger.of("output").astype(bool).sum() == pytest.approx(101 * MS, rel=0.01)


def test_repeated_calls_of_a_model_in_evaluation_mode_are_a_validation_to_the_instant_and_without_a_stack(tmp_path):
    events = Events(tmp_path)
    for k in range(40):
        begin = 20 * k
        if k % 10 == 9:
            events.forward(begin + 1, begin + 2, flags=NO_GRADIENT | EVALUATING)
            events.forward(begin + 6, begin + 8, flags=NO_GRADIENT | EVALUATING)
        events.forward(begin + 10, begin + 12)
        events.backward(begin + 12, begin + 18)
        events.update(begin + 18, begin + 20)

    ledger = measure_recording(events.timeline(), warmup=0).ledger

    assert sorted(set(np.round(ledger.of("output", PartKind.VALIDATION) / MS, 6))) == [0, 7]
    assert ledger.total("output") / MS == pytest.approx(7 * np.count_nonzero(ledger.of("output", PartKind.VALIDATION)))


def test_a_wait_that_is_marked_as_validation_is_output_though_a_backward_follows_it(tmp_path):
    events = Events(tmp_path)
    events.loader()
    for k in range(4):
        events.step(20 * k, batch=k, length=10)
        events.wait(20 * k + 10, 20 * k + 20, k, flags=VALIDATION)

    assert _ledger(events)[Part("output", PartKind.VALIDATION)] == pytest.approx(30)


def test_a_checkpoint_inside_a_validation_is_store(tmp_path):
    events = Events(tmp_path)
    events.loader(iterator=0, loader=0)
    events.loader(iterator=1, loader=1)
    now = 0.0
    for k in range(8):
        now = events.step(now, batch=k)
        if k == 3:
            events.wait(now, now + 2, 0, iterator=1)
            events.save(now + 10, now + 15)
            events.wait(now + 28, now + 30, 1, iterator=1)
            now += 30

    ledger = _ledger(events)

    assert ledger[Part("store", PartKind.SAVE, "torch.save")] == pytest.approx(5)
    assert ledger[Part("output", PartKind.VALIDATION)] == pytest.approx(25)


def test_a_loader_shut_down_and_started_between_epochs_is_preprocess(tmp_path):
    ledger = _measured(tmp_path, epoch_steps=20).ledger

    assert ledger.of("preprocess", PartKind.LOADER_START).sum() / MS == pytest.approx(10 * ledger.ns.shape[1] / 20)


def test_waiting_for_a_core_is_a_part_of_its_stage_and_does_not_change_the_stages_total(tmp_path):
    events, quiet = Events(tmp_path / "delayed"), Events(tmp_path / "quiet")
    for made in (events, quiet):
        made.loader()
        for k in range(6):
            made.step(20 * k, batch=k, length=12)
    for k in range(6):
        events.mark(20 * k + 1, cpu_ms=9 * k, delay_ms=5 * k)
        events.mark(20 * k + 12, cpu_ms=9 * k + 9, delay_ms=5 * k + 3)

    delayed, plain = (measure_recording(made.timeline(), warmup=0).ledger for made in (events, quiet))

    assert delayed.of("compute", PartKind.CORE_WAIT).sum() == pytest.approx(3 * MS * 5, rel=0.35)
    assert delayed.of("unattributed", PartKind.CORE_WAIT).sum() > 0
    for stage in ("preprocess", "compute", "output", "store", "unattributed"):
        assert delayed.of(stage).tolist() == pytest.approx(plain.of(stage).tolist())


def test_no_more_delay_is_moved_than_its_stage_holds(tmp_path):
    events = Events(tmp_path)
    events.loader()
    for k in range(6):
        events.step(10 * k, batch=k)
        events.mark(10 * k + 1, cpu_ms=0, delay_ms=1000 * k)
        events.mark(10 * k + 10, cpu_ms=0, delay_ms=1000 * k + 900)

    ledger = measure_recording(events.timeline(), warmup=0).ledger

    assert (ledger.ns >= 0).all()
    np.testing.assert_allclose(ledger.ns.sum(axis=0), 10 * MS)


def test_simulated_delay_is_found_again(tmp_path):
    m = _measured(tmp_path, delay_ms=4, epoch_steps=None)

    assert m.machine.delay_ns.mean() == pytest.approx(4 * MS, rel=0.02)


@pytest.mark.parametrize(("storage", "part"), [(True, PartKind.STORAGE), (False, PartKind.BLOCKED)])
def test_waiting_for_a_blocked_producer_is_read(tmp_path, storage, part):
    ledger = _measured(tmp_path, blocked_ms=40, storage=storage).ledger

    assert ledger.share("read", part) == pytest.approx(ledger.share("read"))
    assert ledger.share("read") > 0.3


def test_waiting_for_a_thread_pool_is_preprocess_and_not_read(tmp_path):
    ledger = _measured(tmp_path, other_ms=40, storage=True).ledger

    assert ledger.share("read") == 0
    assert ledger.share("preprocess", PartKind.LOCK_WAIT) > 0.3


def test_making_batches_in_a_loop_without_a_loader_is_preprocess_and_what_follows_the_update_output(tmp_path):
    m = _measured(tmp_path, loader=False, input_ms=10, after_ms=20)

    per_step = {stage: float(m.ledger.of(stage).mean()) / MS for stage in ("preprocess", "compute", "output")}

    assert per_step == pytest.approx({"preprocess": 10, "compute": 19, "output": 20}, rel=0.1)


def test_two_networks_in_turns_without_a_loader_are_one_body_and_the_batch_before_them_a_gap(tmp_path):
    # 10 ms make the batch; then forward, backward and update of the one network, and after 1 ms of the other.
    events = Events(tmp_path)
    for k in range(6):
        begin = 40 * k + 10
        for turn in range(2):
            start = begin + 15 * turn
            events.mark(start, cpu_ms=0, delay_ms=8 * k + 4 * turn)
            events.forward(start, start + 5, module=turn)
            events.backward(start + 5, start + 12)
            events.update(start + 12, start + 14, optimizer=turn)
            events.mark(start + 14, cpu_ms=0, delay_ms=8 * k + 4 * turn + 4)

    ledger = measure_recording(events.timeline(), warmup=0).ledger

    per_step = {stage: float(ledger.of(stage).mean()) / MS for stage in ("compute", "unattributed")}
    assert per_step == pytest.approx({"compute": 29, "unattributed": 11})
    # All that the thread waited for a core it waited in its bodies.
    assert ledger.of("compute", PartKind.CORE_WAIT).mean() == pytest.approx(8 * MS)


def _name(events: Events, number: int, text: str, line: int | None = None) -> None:
    events.trainer.lines.append({"kind": "text", "id": number, "text": text})
    if line is not None:
        events.trainer.lines.append({"kind": "place", "text": number, "file": SCRIPT, "line": line})


def _span(events: Events, begin: float, end: float, number: int, stage: str) -> None:
    events._event(SPAN, begin, end, number, STAGES.index(stage))


def test_a_batch_that_is_asked_for_before_the_body_of_the_one_before_leaves_every_body_whole(tmp_path):
    # As Accelerate does: of two epochs of four batches, the last body of each begins when the loader has said that there are no more.
    events = Events(tmp_path)
    now = 0.0
    for epoch in range(2):
        events.loader(iterator=epoch, begin=now, end=now)
        events.wait(now, now + 2, 0, iterator=epoch)
        for k in range(4):
            end = {} if k < 3 else {"flags": 1}
            events.wait(now + (0 if k else 2), now + 4, k + 1, iterator=epoch, **end)
            events.backward(now + 6, now + 9)
            events.update(now + 9, now + 10)
            now += 10

    ledger = _ledger(events)

    # The window has the six bodies from the second on; the last is cut off with the end of the recording.
    assert ledger[Part("compute", PartKind.FORWARD_AND_REST)] == pytest.approx(6 * 2)
    assert ledger[Part("compute", PartKind.BACKWARD)] == pytest.approx(6 * 3)
    assert sum(ns for part, ns in ledger.items() if part.stage == "unattributed") == pytest.approx(0)


def test_what_runs_between_two_micro_batches_is_a_gap_and_no_compute(tmp_path):
    events = Events(tmp_path)
    events.loader()
    for k in range(5):
        for part in (0, 20):
            events.wait(40 * k + part, 40 * k + part + 2, 2 * k + part // 20)
            events.backward(40 * k + part + 4, 40 * k + part + 8)
        events.update(40 * k + 28, 40 * k + 30)

    ledger = _ledger(events)

    assert ledger[Part("unattributed", PartKind.UNATTRIBUTED)] == pytest.approx(3 * (12 + 10))
    assert ledger[Part("compute", PartKind.FORWARD_AND_REST)] == pytest.approx(3 * 2 * 2)


def test_a_span_that_a_framework_named_is_a_part_with_the_place_of_the_users_function(tmp_path):
    events = Events(tmp_path)
    events.loader()
    _name(events, 1, "callback: Plot.on_train_batch_end", line=31)
    for k in range(5):
        events.step(20 * k, batch=k)
        _span(events, 20 * k + 12, 20 * k + 16, 1, "output")

    assert _ledger(events)[Part("output", PartKind.CALLBACK, "Plot.on_train_batch_end", CodePlace("train.py", 31))] == pytest.approx(3 * 4)


def test_a_callback_inside_the_optimizers_closure_is_no_compute(tmp_path):
    events = Events(tmp_path)
    events.loader()
    _name(events, 1, "callback: Norms.on_before_optimizer_step")
    for k in range(5):
        events.wait(20 * k, 20 * k + 2, k)
        events.update(20 * k + 3, 20 * k + 20)
        events.backward(20 * k + 5, 20 * k + 10)
        _span(events, 20 * k + 11, 20 * k + 15, 1, "output")

    ledger = _ledger(events)

    assert ledger[Part("output", PartKind.CALLBACK, "Norms.on_before_optimizer_step")] == pytest.approx(3 * 4)
    assert ledger[Part("compute", PartKind.BACKWARD)] == pytest.approx(3 * 5)


def test_named_callbacks_that_hold_next_to_nothing_are_one_part_per_stage(tmp_path):
    events = Events(tmp_path)
    events.loader()
    for number, name in enumerate(("callback: A.on_x", "progress bar: B.on_x", "callback: Slow.on_x", "span of the user's")):
        _name(events, number, name)
    for k in range(5):
        events.step(100 * k, batch=k, length=80)
        for number in (0, 1, 3):
            _span(events, 100 * k + 82 + number, 100 * k + 82.1 + number, number, "output")
        _span(events, 100 * k + 90, 100 * k + 95, 2, "output")

    ledger = _ledger(events)

    assert ledger[Part("output", PartKind.SMALL_CALLBACKS)] == pytest.approx(3 * 0.2)
    assert ledger[Part("output", PartKind.CALLBACK, "Slow.on_x")] == pytest.approx(3 * 5)
    assert ledger[Part("output", PartKind.SPAN, "span of the user's")] == pytest.approx(3 * 0.1)
    assert not [part for part in ledger if part.name in ("A.on_x", "B.on_x")]
