from __future__ import annotations

import numpy as np
import pytest

from made_events import Events, at
from made_recordings import Training, make_recording
from slowstep.analyses.steps.steps import Steps, find_steps, find_warmup
from slowstep.analyses.steps.suspensions import NO_SUSPENSIONS
from slowstep.analyses.steps.trainer import find_trainer
from slowstep.errors import NothingRecorded
from slowstep.record.writing.format import END
from slowstep.sources.recording import SOURCE
from slowstep.timeline.timeline import Timeline

REQUEST, OPTIMIZER = "request for input", "end of the optimizer call"


def _steps(timeline: Timeline, warmup: int | None = 0) -> Steps:
    return find_steps(find_trainer(timeline), timeline.table("totals"), NO_SUSPENSIONS, warmup)


def _simulated(folder, warmup=None, **changes):
    return _steps(SOURCE.read(make_recording(folder, Training(**changes))), warmup)


def test_an_update_of_which_nothing_else_is_known_makes_no_step(tmp_path):
    events = Events(tmp_path)
    events.update(9, 10)

    with pytest.raises(NothingRecorded, match=r"only 1 update recorded.*longer"):
        _steps(events.timeline())


@pytest.mark.parametrize(
    ("updates", "edges"),
    [(1, [0, 10]), (2, [0, 12]), (3, [0, 12, 24]), (4, [0, 12, 24, 36]), (5, [12, 24, 36, 48])],
)
def test_the_first_of_few_steps_begins_with_its_request_for_input(tmp_path, updates, edges):
    events = Events(tmp_path)
    for k in range(updates):
        events.step(12 * k, batch=k, length=10)

    steps = _steps(events.timeline(), warmup=None)

    assert steps.edges_ns.tolist() == [at(edge) for edge in edges]
    assert (steps.warmup, steps.includes_warmup) == (0, True)


def test_the_first_step_without_a_request_for_input_is_left_out_unless_it_is_the_only_one(tmp_path):
    def loop(updates):
        events = Events(tmp_path / str(updates))
        for k in range(updates):
            events.forward(10 * k + 2, 10 * k + 4)
            events.backward(10 * k + 4, 10 * k + 8)
            events.update(10 * k + 8, 10 * k + 9)
        return _steps(events.timeline()).edges_ns.tolist()

    assert loop(1) == [at(2), at(9)]
    assert loop(2) == [at(9), at(19)]


def test_steps_end_at_the_first_request_after_the_update(tmp_path):
    events = Events(tmp_path)
    for k in range(5):
        events.step(12 * k, batch=k, length=10)

    steps = _steps(events.timeline())

    assert steps.boundary == REQUEST
    assert steps.edges_ns.tolist() == [at(12), at(24), at(36), at(48)]


def test_the_request_that_ends_an_epoch_is_a_boundary_too(tmp_path):
    events = Events(tmp_path)
    for k in range(4):
        events.step(20 * k, batch=k, length=10)
        events.wait(20 * k + 11, 20 * k + 12, -1, flags=END)

    assert _steps(events.timeline()).edges_ns.tolist() == [at(20 * k + 11) for k in range(4)]


def test_without_requests_steps_end_with_the_optimizer(tmp_path):
    events = Events(tmp_path)
    for k in range(4):
        events.backward(10 * k + 1, 10 * k + 5)
        events.update(10 * k + 5, 10 * k + 6)

    steps = _steps(events.timeline())

    assert steps.boundary == OPTIMIZER
    assert steps.edges_ns.tolist() == [at(10 * k + 6) for k in range(4)]


@pytest.mark.parametrize(("without", "boundary"), [(5, REQUEST), (6, OPTIMIZER)])
def test_one_kind_of_boundary_holds_where_95_percent_of_the_updates_have_it(tmp_path, without, boundary):
    events = Events(tmp_path)
    for k in range(101):
        if k == 0 or k > without:
            events.wait(10 * k, 10 * k + 1, k)
        events.backward(10 * k + 2, 10 * k + 7)
        events.update(10 * k + 8, 10 * k + 9)

    assert _steps(events.timeline()).boundary == boundary


def test_a_step_holds_all_micro_batches_of_its_update(tmp_path):
    plain = _simulated(tmp_path / "plain", warmup=0, epoch_steps=None, steps=40)
    accumulated = _simulated(tmp_path / "accumulated", warmup=0, epoch_steps=None, steps=40, micro_batches=4)

    assert accumulated.count == plain.count
    assert set(accumulated.samples.tolist()) == {64.0}
    assert accumulated.batch_size == 16
    assert (accumulated.batches_per_step, plain.batches_per_step) == (4, 1)
    assert accumulated.duration_ns.mean() > 3 * plain.duration_ns.mean()


def test_closures_that_run_inside_the_optimizer_make_the_same_steps(tmp_path):
    assert _simulated(tmp_path / "a", nested=True).edges_ns.tolist() == _simulated(tmp_path / "b").edges_ns.tolist()


def test_a_second_optimizer_called_as_often_makes_no_steps_of_its_own(tmp_path):
    steps = _simulated(tmp_path, warmup=0, critics=1, steps=40, epoch_steps=None)

    assert steps.boundary == REQUEST
    assert steps.total == 40


@pytest.mark.parametrize(
    ("durations", "left_out"),
    [
        ([10] * 14, 0),
        ([10] * 15, 3),
        ([10], 0),
        ([10] * 100, 3),
        ([100] * 8 + [10] * 92, 4),
        ([100] * 15 + [10] * 85, 11),
        ([100] * 50 + [10] * 50, 20),
        ([0] * 100, 3),
    ],
    ids=["fourteen", "fifteen", "one", "steady", "short", "long", "never steady", "no time at all"],
)
def test_warm_up_ends_when_ten_steps_are_like_the_rest_after_3_steps_and_before_a_fifth(durations, left_out):
    assert find_warmup(np.array(durations, dtype=np.int64)) == left_out


@pytest.mark.parametrize(("asked", "left_out"), [(0, 0), (7, 7), (10_000, 38)])
def test_a_warm_up_that_was_asked_for_holds_and_leaves_a_step(tmp_path, asked, left_out):
    steps = _simulated(tmp_path, warmup=asked, steps=40, epoch_steps=None)

    assert steps.warmup == left_out
    assert steps.count >= 1


def test_the_window_is_cut_to_whole_epochs_where_two_or_more_are_seen(tmp_path):
    steps = _simulated(tmp_path, steps=100, epoch_steps=20)

    assert steps.whole_periods
    assert steps.period == 20
    assert steps.count == 60
    assert np.flatnonzero(steps.eventful).tolist() == [0, 20, 40]


def test_the_longest_period_decides(tmp_path):
    steps = _simulated(tmp_path, steps=200, epoch_steps=10, saves=(30, 5))

    assert steps.period == 30
    assert steps.count % 30 == 0


@pytest.mark.parametrize("epoch", [90, 60])
def test_with_fewer_than_two_whole_periods_the_window_is_kept_whole_and_flagged(tmp_path, epoch):
    steps = _simulated(tmp_path, steps=100, epoch_steps=epoch)

    assert not steps.whole_periods
    assert steps.count == steps.total - 1 - steps.warmup


@pytest.mark.parametrize("epoch", [1, 2])
def test_epochs_shorter_than_the_warm_up_still_make_a_window(tmp_path, epoch):
    steps = _simulated(tmp_path, steps=60, epoch_steps=epoch)

    assert steps.count >= 30
    assert steps.warmup >= 3


def test_samples_are_unknown_where_any_batch_did_not_say_how_many_it_holds(tmp_path):
    events = Events(tmp_path)
    for k in range(5):
        events.wait(10 * k, 10 * k + 1, k, samples=-1 if k == 2 else 16)
        events.backward(10 * k + 2, 10 * k + 5)
        events.update(10 * k + 5, 10 * k + 6)

    steps = _steps(events.timeline())

    assert np.isnan(steps.samples).all()
    assert steps.batches_per_step == 1
    assert steps.batch_size is None
    assert steps.batch_size_from is None


@pytest.mark.parametrize(("modules", "samples"), [((0, 0, 0), 24.0), ((0, 1, 0), 8.0)], ids=["micro-batches", "a second model"])
def test_without_a_loader_micro_batches_are_told_from_the_forwards_of_other_models(tmp_path, modules, samples):
    events = Events(tmp_path)
    for k in range(6):
        for number, module in enumerate(modules):
            begin = 20 * k + 4 * number
            events.forward(begin + 1, begin + 2, samples=8, module=module)
            events.backward(begin + 2, begin + 4)
        events.update(20 * k + 15, 20 * k + 17)

    steps = _steps(events.timeline())

    assert steps.samples.tolist() == [samples] * 5
    assert steps.batch_size == 8
    assert steps.batches_per_step == samples / 8


def test_without_a_loader_the_first_forward_of_a_step_tells_the_samples(tmp_path):
    events = Events(tmp_path)
    for k in range(6):
        events.forward(10 * k + 1, 10 * k + 2, samples=8)
        events.forward(10 * k + 3, 10 * k + 4, samples=8)
        events.backward(10 * k + 4, 10 * k + 6)
        events.update(10 * k + 6, 10 * k + 7)

    steps = _steps(events.timeline())

    assert steps.samples.tolist() == [8.0] * 5
    assert steps.batch_size_from is not None
    assert "assumed" in steps.batch_size_from
    assert steps.is_batch_size_assumed
