from __future__ import annotations

import pytest

from made_events import Events
from made_recordings import TRAINER_THREAD
from slowstep.analyses.steps.trainer import find_trainer
from slowstep.errors import NothingRecorded
from slowstep.record.writing.format import EVALUATING, NO_GRADIENT
from slowstep.sources.recording import SOURCE


def test_without_any_process_the_remedy_is_to_import_slowstep_in_the_script(tmp_path):
    events = Events(tmp_path)
    for file in (events.trainer, events.launcher):
        file.lines.clear()
    events.launcher.lines.append({"kind": "process", "role": "launcher"})
    for file in events.close().glob("100-1.*"):
        file.unlink()

    with pytest.raises(NothingRecorded, match=r"import slowstep\.auto"):
        find_trainer(SOURCE.read(events.folder))


def test_batches_without_an_update_say_that_no_optimizer_was_called(tmp_path):
    events = Events(tmp_path)
    events.wait(0, 1)

    with pytest.raises(NothingRecorded, match=r"1 batch requested.*step\(\)"):
        find_trainer(events.timeline())


def test_the_anchor_is_the_optimizer_with_most_calls(tmp_path):
    events = Events(tmp_path)
    for k in range(4):
        events.update(10 * k, 10 * k + 1, optimizer=7)
        events.update(10 * k + 4, 10 * k + 5, optimizer=8)
        events.update(10 * k + 7, 10 * k + 8, optimizer=8)

    trainer = find_trainer(events.timeline())

    assert trainer.optimizer == 8
    assert len(trainer.update_end_ns) == 8
    assert trainer.all_updates.height == 12


@pytest.mark.parametrize("busiest", [1, 2])
def test_of_two_frameworks_in_a_process_the_one_whose_optimizer_updates_most_speaks_for_itself(tmp_path, busiest):
    events = Events(tmp_path)
    events.trainer.lines += [
        {"kind": "facts", "framework": "torch", "threads": 3},
        {"kind": "optimizer", "id": 1, "framework": "torch"},
        {"kind": "facts", "framework": "other", "threads": 5, "asynchronous": True, "optimizers": False},
        {"kind": "optimizer", "id": 2, "framework": "other"},
        {"kind": "optimizer"},
    ]
    for k in range(4):
        events.update(10 * k, 10 * k + 1, optimizer=busiest)
    events.update(45, 46, optimizer=3 - busiest)

    trainer = find_trainer(events.timeline())

    said = (trainer.facts.framework, trainer.facts.threads, trainer.is_asynchronous, trainer.has_optimizers)
    assert said == [("torch", 3, False, True), ("other", 5, True, False)][busiest - 1]


def test_batches_of_a_loader_feed_calls_that_train_without_a_backward(tmp_path):
    events = Events(tmp_path)
    events.trainer.lines += [{"kind": "facts", "framework": "other", "optimizers": False}]
    for k in range(4):
        events.wait(10 * k, 10 * k + 2)
        events.update(10 * k + 3, 10 * k + 9, optimizer=1)

    trainer = find_trainer(events.timeline())

    assert (trainer.waits.height, trainer.other_waits.height, trainer.is_fed) == (4, 0, True)


@pytest.mark.parametrize(("first", "second"), [(3, 9), (9, 3)])
@pytest.mark.parametrize("ends_early", [False, True])
def test_of_two_optimizers_called_in_turns_the_last_one_is_the_anchor(tmp_path, first, second, ends_early):
    events = Events(tmp_path)
    for k in range(5):
        events.update(10 * k, 10 * k + 1, optimizer=first)
        if k < 4 or not ends_early:
            events.update(10 * k + 5, 10 * k + 6, optimizer=second)

    assert find_trainer(events.timeline()).optimizer == second


@pytest.mark.parametrize(("second_in", "takes_turns"), [(range(6), True), (range(0, 6, 3), False)])
def test_optimizers_that_update_as_often_take_turns(tmp_path, second_in, takes_turns):
    events = Events(tmp_path)
    for k in range(6):
        events.update(10 * k, 10 * k + 1, optimizer=3)
        if k in second_in:
            events.update(10 * k + 5, 10 * k + 6, optimizer=9)

    trainer = find_trainer(events.timeline())

    assert trainer.takes_turns is takes_turns
    # Where they do not, each of them ends a body.
    assert len(trainer.body_end_ns) == (6 if takes_turns else 8)


@pytest.mark.parametrize(("every", "is_fed"), [(1, True), (2, False), (30, False)])
def test_a_training_whose_updates_share_batches_is_not_fed(tmp_path, every, is_fed):
    events = Events(tmp_path)
    events.loader()
    for k in range(30):
        if k % every == 0:
            events.wait(10 * k, 10 * k + 1, k // every)
        events.backward(10 * k + 3, 10 * k + 4)
        events.update(10 * k + 5, 10 * k + 6)

    trainer = find_trainer(events.timeline())

    assert trainer.waits.height == 30 // every
    assert trainer.is_fed is is_fed


def test_a_training_without_a_loader_is_not_fed(tmp_path):
    events = Events(tmp_path)
    for k in range(5):
        events.update(10 * k, 10 * k + 1)

    assert not find_trainer(events.timeline()).is_fed


@pytest.mark.parametrize(("outer", "inner"), [(3, 9), (9, 3)])
def test_of_an_optimizer_that_calls_another_the_outer_one_is_the_anchor(tmp_path, outer, inner):
    events = Events(tmp_path)
    for k in range(5):
        events.update(10 * k, 10 * k + 5, optimizer=outer)
        events.update(10 * k + 1, 10 * k + 4, optimizer=inner)

    assert find_trainer(events.timeline()).optimizer == outer


def test_of_two_trainings_one_after_the_other_the_first_is_the_anchor(tmp_path):
    events = Events(tmp_path)
    for k in range(10):
        events.update(10 * k, 10 * k + 1, optimizer=3 if k < 5 else 9)

    assert find_trainer(events.timeline()).optimizer == 3


def test_a_call_inside_a_call_of_the_same_optimizer_is_one_update(tmp_path):
    events = Events(tmp_path)
    for k in range(3):
        events.update(10 * k, 10 * k + 5)
        events.update(10 * k + 1, 10 * k + 4)

    assert len(find_trainer(events.timeline()).update_end_ns) == 3


def test_the_training_thread_is_the_one_that_updates(tmp_path):
    events = Events(tmp_path)
    for k in range(3):
        events.update(10 * k, 10 * k + 1, thread=777)
        events.wait(10 * k + 2, 10 * k + 3)

    trainer = find_trainer(events.timeline())

    assert trainer.thread == 777
    assert trainer.waits.is_empty()
    assert TRAINER_THREAD != 777


def test_a_loader_that_no_backward_follows_is_validation(tmp_path):
    events = Events(tmp_path)
    events.loader(iterator=1, loader=1)
    events.loader(iterator=2, loader=2)
    now = 0.0
    for k in range(6):
        now = events.step(now, batch=k, iterator=1)
    for k in range(4):
        events.wait(now + k, now + k + 0.5, k, iterator=2)
    events.step(now + 10, batch=6, iterator=1)

    trainer = find_trainer(events.timeline())

    assert trainer.waits["iterator"].unique().to_list() == [1]
    assert trainer.other_waits.height == 4


def test_two_loaders_read_one_after_the_other_before_the_backward_both_feed_the_training(tmp_path):
    events = Events(tmp_path)
    events.loader(iterator=1, loader=1)
    events.loader(iterator=2, loader=2)
    for k in range(8):
        events.wait(20 * k, 20 * k + 1, k, iterator=1)
        events.step(20 * k + 2, batch=k, iterator=2)

    trainer = find_trainer(events.timeline())

    assert trainer.waits.height == 16
    assert trainer.other_waits.is_empty()


def _accumulated(tmp_path, *, backwards: int):
    """Four batches asked for at once, then the backwards over them and an update; another loader is read after every second update."""
    events = Events(tmp_path)
    events.loader(iterator=1, loader=1)
    events.loader(iterator=2, loader=2)
    for k in range(10):
        begin = 100 * k
        for batch in range(4):
            events.wait(begin + batch, begin + batch + 1, 4 * k + batch, iterator=1)
        for backward in range(backwards):
            events.backward(begin + 10 + 10 * backward, begin + 15 + 10 * backward)
        events.update(begin + 50, begin + 55)
        for batch in range(3 * (k % 2)):
            events.wait(begin + 60 + batch, begin + 61 + batch, batch, iterator=2)
    return find_trainer(events.timeline())


def test_batches_that_are_asked_for_together_and_used_one_by_one_feed_the_training(tmp_path):
    trainer = _accumulated(tmp_path, backwards=4)

    assert trainer.waits["iterator"].unique().to_list() == [1]
    assert trainer.other_waits.height == 15


def test_batches_that_are_asked_for_together_and_used_by_one_backward_feed_the_training_too(tmp_path):
    trainer = _accumulated(tmp_path, backwards=1)

    assert trainer.waits["iterator"].unique().to_list() == [1]
    assert (trainer.other_waits.height, trainer.joins_batches) == (15, True)


def _without_a_loader(tmp_path, *, calls: int, batches: int = 4, flags: int = NO_GRADIENT, module: int = 0):
    """Ten times: a loader of so many batches is read, and on each a model is called so often; then ten steps without a loader."""
    events = Events(tmp_path)
    events.loader(iterator=1, loader=1)
    for k in range(10):
        begin = 200 * k
        for batch in range(batches):
            events.wait(begin + 4 * batch, begin + 4 * batch + 0.5, batch, iterator=1)
            for call in range(calls):
                events.forward(begin + 4 * batch + 1 + 0.2 * call, begin + 4 * batch + 1.1 + 0.2 * call, flags=flags, module=module)
        for step in range(10):
            events.forward(begin + 20 + 10 * step, begin + 22 + 10 * step)
            events.backward(begin + 22 + 10 * step, begin + 25 + 10 * step)
            events.update(begin + 25 + 10 * step, begin + 28 + 10 * step)
    return find_trainer(events.timeline())


@pytest.mark.parametrize("flags", [NO_GRADIENT | EVALUATING, NO_GRADIENT], ids=["evaluating", "in training mode"])
@pytest.mark.parametrize("batches", [1, 4])
def test_a_loader_whose_batches_the_model_is_judged_by_does_not_feed_a_loop_without_another(tmp_path, flags, batches):
    trainer = _without_a_loader(tmp_path, calls=1, batches=batches, flags=flags)

    assert trainer.waits.is_empty()
    assert trainer.other_waits.height == 10 * batches


@pytest.mark.parametrize(
    "called",
    [{"calls": 0}, {"calls": 9}, {"calls": 1, "module": 5, "flags": NO_GRADIENT | EVALUATING}],
    ids=["no model", "for each word", "a frozen one"],
)
def test_batches_that_no_model_is_judged_by_feed_such_a_loop(tmp_path, called):
    assert _without_a_loader(tmp_path, **called).waits.height == 40


def test_a_batch_that_the_model_is_asked_about_before_it_trains_on_it_feeds_the_training(tmp_path):
    events = Events(tmp_path)
    events.loader(iterator=1, loader=1)
    for k in range(10):
        begin = 20 * k
        events.wait(begin, begin + 1, k, iterator=1)
        events.forward(begin + 1, begin + 2, flags=NO_GRADIENT | EVALUATING)
        events.forward(begin + 3, begin + 5)
        events.backward(begin + 5, begin + 9)
        events.update(begin + 9, begin + 10)

    assert find_trainer(events.timeline()).waits.height == 10
