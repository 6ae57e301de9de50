"""Passes over the training's own loader that train nothing are no input of the training."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_events import Events
from slowstep.analyses.measurements import measure
from slowstep.analyses.trainer import Trainer, find_trainer
from slowstep.record.format import END, EVALUATING, NO_GRADIENT

BATCHES = 8


class Epochs:
    """A training on the loader 1 and what else reads loaders, pass by pass; time goes on by itself."""

    def __init__(self, folder: Path) -> None:
        self.events = Events(folder)
        self.now = 0.0
        self.iterator = 0

    def begin(self, loader: int = 1) -> int:
        self.iterator += 1
        self.events.loader(iterator=self.iterator, loader=loader, begin=self.now, end=self.now + 0.1)
        self.now += 0.1
        return self.iterator

    def ask(self, iterator: int, batch: int, flags: int = 0) -> None:
        self.events.wait(self.now, self.now + 1, -1 if flags else batch, iterator=iterator, flags=flags)
        self.now += 1

    def body(self, *, update: bool = True) -> None:
        self.events.backward(self.now + 1, self.now + 5)
        if update:
            self.events.update(self.now + 5, self.now + 6)
        self.now += 6

    def judge(self, flags: int | None = NO_GRADIENT | EVALUATING) -> None:
        if flags is not None:
            self.events.forward(self.now, self.now + 1, flags=flags)
        self.now += 1

    def train(self, batches: int = BATCHES, *, ahead: bool = False, loader: int = 1) -> None:
        iterator = self.begin(loader)
        if ahead:
            self.ask(iterator, 0)
        for batch in range(batches):
            if not ahead:
                self.ask(iterator, batch)
            elif batch + 1 < batches:
                self.ask(iterator, batch + 1)
            else:
                self.ask(iterator, -1, END)
            self.body()
        if not ahead:
            self.ask(iterator, -1, END)

    def evaluate(self, batches: int = BATCHES, *, loader: int = 1, flags: int | None = NO_GRADIENT | EVALUATING) -> None:
        iterator = self.begin(loader)
        for batch in range(batches):
            self.ask(iterator, batch)
            self.judge(flags)
        self.ask(iterator, -1, END)

    def leave_out(self, batches: int = BATCHES) -> None:
        iterator = self.begin()
        for batch in range(batches):
            self.ask(iterator, batch)
        self.ask(iterator, -1, END)

    def trainer(self) -> Trainer:
        return find_trainer(self.events.timeline())


def of_training(trainer: Trainer) -> list[int]:
    return sorted(trainer.waits["iterator"].unique().to_list())


@pytest.mark.parametrize("flags", [NO_GRADIENT | EVALUATING, NO_GRADIENT, None], ids=["evaluating", "in training mode", "calls not seen"])
@pytest.mark.parametrize("ahead", [False, True], ids=["asks in turn", "asks ahead"])
@pytest.mark.parametrize("evaluations", [1, 2, 3])
def test_a_pass_over_the_training_loader_that_trains_nothing_is_a_validation(tmp_path, evaluations, ahead, flags):
    epochs = Epochs(tmp_path)
    for _ in range(5):
        epochs.train(ahead=ahead)
        for _ in range(evaluations):
            epochs.evaluate(flags=flags)

    trainer = epochs.trainer()

    assert trainer.waits.filter(~trainer.waits["exhausted"]).height == 5 * BATCHES
    assert trainer.other_waits.filter(~trainer.other_waits["exhausted"]).height == 5 * BATCHES * evaluations
    assert (trainer.starts.height, trainer.other_starts.height) == (5, 5 * evaluations)
    assert trainer.is_fed


@pytest.mark.parametrize("flags", [NO_GRADIENT | EVALUATING, None], ids=["evaluating", "calls not seen"])
def test_a_pass_before_the_training_that_is_worked_on_is_a_validation_too(tmp_path, flags):
    epochs = Epochs(tmp_path)
    epochs.evaluate(flags=flags)
    for _ in range(4):
        epochs.train()
        epochs.evaluate()
        epochs.evaluate(3, loader=2)

    assert of_training(epochs.trainer()) == [2, 5, 8, 11]


def test_passes_that_a_loop_leaves_out_before_it_trains_are_the_loaders(tmp_path):
    epochs = Epochs(tmp_path)
    for _ in range(3):
        epochs.leave_out()
    for _ in range(2):
        epochs.train()

    assert of_training(epochs.trainer()) == [1, 2, 3, 4, 5]


def test_a_validation_amid_a_pass_of_the_training_leaves_that_pass_the_trainings(tmp_path):
    epochs = Epochs(tmp_path)
    for _ in range(3):
        iterator = epochs.begin()
        for batch in range(BATCHES):
            epochs.ask(iterator, batch)
            epochs.body()
            if batch == 3:
                epochs.evaluate()

    assert of_training(epochs.trainer()) == [1, 3, 5]


def test_a_body_worked_on_after_a_validation_because_its_batch_was_asked_for_ahead_does_not_make_that_the_trainings(tmp_path):
    epochs = Epochs(tmp_path)
    for _ in range(3):
        iterator = epochs.begin()
        epochs.ask(iterator, 0)
        for batch in range(BATCHES):
            if batch == 3:
                epochs.evaluate()
            if batch + 1 < BATCHES and batch != 3:
                epochs.ask(iterator, batch + 1)
            epochs.body()

    assert of_training(epochs.trainer()) == [1, 3, 5]


@pytest.mark.parametrize("batches", [1, 2, 3])
def test_short_epochs_that_train_are_the_trainings(tmp_path, batches):
    epochs = Epochs(tmp_path)
    for _ in range(20):
        epochs.train(batches, ahead=batches > 1)

    assert epochs.trainer().other_waits.is_empty()


def test_a_batch_of_an_iterator_of_its_own_that_is_left_out_is_no_validation(tmp_path):
    epochs = Epochs(tmp_path)
    for step in range(40):
        epochs.ask(epochs.begin(), 0)
        if step % 4:
            epochs.body()

    assert epochs.trainer().waits.height == 40


def test_one_that_the_model_is_judged_by_is(tmp_path):
    epochs = Epochs(tmp_path)
    for _ in range(20):
        epochs.train(1)
        epochs.evaluate(1)

    assert epochs.trainer().starts.height == 20


def test_micro_batches_whose_backwards_come_without_updates_train(tmp_path):
    epochs = Epochs(tmp_path)
    for _ in range(4):
        iterator = epochs.begin()
        for batch in range(BATCHES):
            epochs.ask(iterator, batch)
            epochs.body(update=batch % 4 == 3)
        epochs.evaluate()

    assert of_training(epochs.trainer()) == [1, 3, 5, 7]


@pytest.mark.parametrize("loaders", [(1, 2), (1, 1)], ids=["two loaders", "one loader twice"])
def test_two_iterators_read_together_both_train_beside_passes_that_do_not(tmp_path, loaders):
    epochs = Epochs(tmp_path)
    for _ in range(4):
        first, second = (epochs.begin(loader) for loader in loaders)
        for batch in range(BATCHES):
            epochs.ask(first, batch)
            epochs.ask(second, batch)
            epochs.body()
        epochs.evaluate()

    assert of_training(epochs.trainer()) == [1, 2, 4, 5, 7, 8, 10, 11]


def test_a_new_loader_for_each_epoch_is_judged_by_as_one_that_is_kept(tmp_path):
    epochs = Epochs(tmp_path)
    for loader in range(1, 5):
        epochs.train(loader=loader)
        epochs.evaluate(loader=loader)

    assert of_training(epochs.trainer()) == [1, 3, 5, 7]


def test_a_batch_looked_at_after_a_validation_does_not_make_its_loader_feed_a_loop_without_one(tmp_path):
    epochs = Epochs(tmp_path)
    for _ in range(4):
        epochs.evaluate()
        epochs.ask(epochs.begin(), 0)
        for _ in range(30):
            epochs.body()

    assert epochs.trainer().waits.is_empty()


def test_samples_per_second_and_passes_are_those_of_the_training(tmp_path):
    epochs = Epochs(tmp_path)
    epochs.evaluate()
    for _ in range(8):
        epochs.train()
        epochs.evaluate()

    m = measure(epochs.events.timeline(), 0)

    assert (m.steps.batch_size, m.steps.period) == (16, BATCHES)
    assert set(m.steps.samples.tolist()) == {16.0}
    assert m.over_time.restarts.count * BATCHES == m.steps.count
    validation = m.over_time.event("validation")
    assert validation is not None
    assert validation.every_steps == BATCHES
    assert m.over_time.validations is not None
    assert m.over_time.validations.samples_ratio == pytest.approx(1.0)
    assert m.over_time.validations.reads_own_loader
    # Two ms for each batch, and one that says that there are no more.
    assert validation.each_ns == pytest.approx((2 * BATCHES + 1.1) * 1e6, rel=0.1)


def test_a_validation_with_a_loader_of_its_own_is_told_apart(tmp_path):
    epochs = Epochs(tmp_path)
    for _ in range(8):
        epochs.train()
        epochs.evaluate(4, loader=2)

    known = measure(epochs.events.timeline(), 0).over_time.validations

    assert known is not None
    assert (known.samples_ratio, known.reads_own_loader) == (pytest.approx(0.5), False)


@pytest.mark.parametrize(("batches", "used_up", "cut_short"), [(BATCHES, 8, 0), (20, 0, 8), (None, 0, 0)], ids=["all", "a part", "unknown"])
def test_passes_that_are_left_before_their_last_batch_are_cut_short(tmp_path, batches, used_up, cut_short):
    epochs = Epochs(tmp_path)
    for _ in range(10):
        iterator = epochs.begin()
        epochs.events.trainer.lines[-1]["batches"] = batches
        for batch in range(BATCHES):
            epochs.ask(iterator, batch)
            epochs.body()

    restarts = measure(epochs.events.timeline(), 0).over_time.restarts

    assert (restarts.count, restarts.used_up, restarts.cut_short) == (8, used_up, cut_short)
