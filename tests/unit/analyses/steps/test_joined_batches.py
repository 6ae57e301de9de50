"""Several batches of a loader before one backward: input of the next step, or a validation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from made_events import Events
from slowstep.analyses.steps.batches import Batches, find_batches
from slowstep.analyses.steps.trainer import Trainer, find_trainer
from slowstep.record.writing.format import EVALUATING, NO_GRADIENT

JUDGING = NO_GRADIENT | EVALUATING
STEPS = 12
EVERY_MS = 100.0


class Loop:
    """Steps of 100 ms; `now` moves on with each thing that is done."""

    def __init__(self, tmp_path):
        self.events, self.now, self.read = Events(tmp_path), 0.0, 0
        self._iterators = 0

    def start(self, loader: int) -> int:
        self._iterators += 1
        self.events.loader(iterator=self._iterators, loader=loader, begin=self.now, end=self.now)
        return self._iterators

    def ask(self, iterator: int, batches: int = 1, *, samples: int = 4, apart_ms: float = 0.001) -> None:
        for _ in range(batches):
            self.events.wait(self.now, self.now + 1, self.read, iterator=iterator, samples=samples)
            self.read, self.now = self.read + 1, self.now + 1 + apart_ms

    def call(self, samples: int, flags: int = 0, *, module: int = 0) -> None:
        self.events.forward(self.now + 0.1, self.now + 0.5, samples, flags=flags, module=module)
        self.now += 0.6

    def train(self) -> None:
        self.events.backward(self.now + 0.1, self.now + 2)
        self.events.update(self.now + 2.1, self.now + 3)
        self.now = (self.now // EVERY_MS + 1) * EVERY_MS


def _trained(tmp_path, step: Callable[[Loop, int], None]) -> tuple[Trainer, Batches]:
    loop = Loop(tmp_path)
    for k in range(STEPS):
        step(loop, k)
    timeline = loop.events.timeline()
    trainer = find_trainer(timeline)
    edges = trainer.next_request_ns()[:-1]
    return trainer, find_batches(trainer, edges, timeline.table("totals"))


def _fed_by(trainer: Trainer) -> list[int]:
    return sorted(trainer.starts["loader"].unique().to_list())


@pytest.mark.parametrize("known", [True, False], ids=["forwards are known", "forwards are not recorded"])
@pytest.mark.parametrize("anew", [True, False], ids=["read whole for each step", "read on"])
def test_batches_that_are_joined_are_the_input_of_their_step(tmp_path, known, anew):
    iterators = []

    def step(loop, k):
        if anew or not k:
            iterators.append(loop.start(1))
        loop.ask(iterators[-1], 5)
        if known:
            loop.call(20)
        loop.train()

    trainer, batches = _trained(tmp_path, step)

    assert (trainer.waits.height, trainer.other_waits.height, trainer.is_fed) == (5 * STEPS, 0, True)
    assert trainer.joins_batches
    # Nothing but the forwards tells how many samples it was trained on: a filter may have let some of them through.
    assert batches.sizes is None if not known else set(batches.sizes) == {20}
    assert (batches.per_step, batches.requests_per_step) == (1, 5)


@pytest.mark.parametrize(("called_on", "size"), [(4, 4), (8, None)], ids=["a filter", "drawn from a buffer"])
def test_of_batches_that_are_left_out_no_samples_are_counted(tmp_path, called_on, size):
    iterator = []

    def step(loop, k):
        iterator[:] = iterator or [loop.start(1)]
        loop.ask(iterator[0], 3 + k % 4)
        loop.call(called_on)
        loop.train()

    trainer, batches = _trained(tmp_path, step)

    assert trainer.other_waits.is_empty()
    assert (None if batches.sizes is None else set(batches.sizes)) == (size and {size})
    assert np.isnan(batches.samples).all() == (size is None)


@pytest.mark.parametrize("flags", [NO_GRADIENT, JUDGING], ids=["in training mode", "evaluating"])
@pytest.mark.parametrize("collected", [True, False], ids=["judged together", "judged one by one"])
def test_a_validation_before_every_step_of_a_loop_without_another_loader_feeds_nothing(tmp_path, flags, collected):
    def step(loop, _):
        iterator = loop.start(1)
        for _ in range(5):
            loop.ask(iterator)
            if not collected:
                loop.call(4, flags)
        if collected:
            loop.call(20, flags)
        loop.call(64)
        loop.train()

    trainer, _ = _trained(tmp_path, step)

    assert (trainer.waits.height, trainer.other_waits.height) == (0, 5 * STEPS)


def test_a_validation_that_goes_on_where_another_one_stopped_feeds_nothing(tmp_path):
    iterator = []

    def step(loop, _):
        iterator[:] = iterator or [loop.start(1)]
        for _ in range(4):
            loop.ask(iterator[0])
            loop.call(4, JUDGING)
        loop.call(64)
        loop.train()

    trainer, _ = _trained(tmp_path, step)

    assert (trainer.waits.height, trainer.other_waits.height) == (0, 4 * STEPS)


def test_what_another_model_scores_in_its_evaluation_mode_is_input(tmp_path):
    iterator = []

    def step(loop, _):
        iterator[:] = iterator or [loop.start(1)]
        for _ in range(4):
            loop.ask(iterator[0])
            loop.call(4, JUDGING, module=7)
        loop.call(8)
        loop.train()

    trainer, _ = _trained(tmp_path, step)

    assert trainer.other_waits.is_empty()


@pytest.mark.parametrize("judged_on", [None, 64], ids=["forwards are not recorded", "as many samples as a step has"])
def test_a_validation_that_collects_its_batches_before_every_step_feeds_nothing_beside_a_full_batch(tmp_path, judged_on):
    def step(loop, _):
        loop.ask(loop.start(1), samples=64)
        loop.ask(loop.start(2), 4, samples=16)
        if judged_on is not None:
            loop.call(judged_on, JUDGING)
            loop.call(64)
        loop.train()

    trainer, batches = _trained(tmp_path, step)

    assert _fed_by(trainer) == [1]
    assert trainer.other_waits.height == 4 * STEPS
    assert set(batches.sizes) == {64}


@pytest.mark.parametrize("samples", [1, 4], ids=["one sample a batch", "several samples a batch"])
def test_batches_that_are_packed_into_one_are_not_counted_as_the_last_of_them(tmp_path, samples):
    iterator = []

    def step(loop, k):
        iterator[:] = iterator or [loop.start(1)]
        loop.ask(iterator[0], 5 if samples > 1 else 3 + k % 4, samples=samples)
        loop.call(samples)
        loop.train()

    _, batches = _trained(tmp_path, step)

    assert batches.sizes is None


def test_batches_of_which_the_hardest_are_chosen_are_input_where_they_are_read_on(tmp_path):
    iterator = []

    def step(loop, _):
        iterator[:] = iterator or [loop.start(1)]
        for _ in range(5):
            loop.ask(iterator[0])
            loop.call(4, NO_GRADIENT)
        loop.call(4)
        loop.train()

    trainer, batches = _trained(tmp_path, step)

    assert trainer.other_waits.is_empty()
    assert set(batches.sizes) == {4}


@pytest.mark.parametrize("every", [3, 6])
def test_a_validation_that_collects_its_batches_feeds_nothing_beside_a_loader(tmp_path, every):
    own = []

    def step(loop, k):
        own[:] = own or [loop.start(1)]
        loop.ask(own[0])
        if k % every == 1:
            loop.ask(loop.start(2), 5)
            loop.call(20, JUDGING)
        loop.call(4)
        loop.train()

    trainer, batches = _trained(tmp_path, step)

    assert _fed_by(trainer) == [1]
    assert trainer.other_waits.height == 5 * len(range(1, STEPS, every))
    assert set(batches.sizes) == {4}


@pytest.mark.parametrize("labeled_first", [True, False])
def test_a_batch_and_several_of_another_loader_feed_one_step(tmp_path, labeled_first):
    iterators = []

    def step(loop, _):
        iterators[:] = iterators or [loop.start(1), loop.start(2)]
        for which in (0, 1) if labeled_first else (1, 0):
            loop.ask(iterators[which], (1, 5)[which])
        loop.call(20, NO_GRADIENT)
        loop.call(4)
        loop.call(20)
        loop.train()

    trainer, batches = _trained(tmp_path, step)

    assert _fed_by(trainer) == [1, 2]
    assert trainer.other_waits.is_empty()
    assert set(batches.sizes) == {24}


def test_batches_of_a_loader_that_is_built_anew_for_each_epoch_are_joined_too(tmp_path):
    iterators = []

    def step(loop, k):
        if k % 4 == 0:
            iterators.append(loop.start(loader=1 + k))
        loop.ask(iterators[-1], 5)
        loop.train()

    trainer, _ = _trained(tmp_path, step)

    assert (trainer.waits.height, trainer.is_fed) == (5 * STEPS, True)


def test_a_validation_of_joined_batches_on_the_trainings_own_loader_is_no_input(tmp_path):
    iterators = []

    def step(loop, k):
        if k % 4 == 0:
            if k:
                own = loop.start(1)
                for _ in range(8):
                    loop.ask(own, 5)
                    loop.call(20, JUDGING)
            iterators.append(loop.start(1))
        loop.ask(iterators[-1], 5)
        loop.call(20)
        loop.train()

    trainer, _ = _trained(tmp_path, step)

    assert sorted(set(trainer.waits["iterator"].to_list())) == iterators
    assert trainer.other_waits.height == 80


def test_what_is_collected_before_the_last_step_feeds_nothing(tmp_path):
    own = []

    def step(loop, k):
        own[:] = own or [loop.start(1)]
        if k == STEPS - 1:
            loop.ask(loop.start(2), 5)
        loop.ask(own[0])
        loop.train()

    trainer, _ = _trained(tmp_path, step)

    assert _fed_by(trainer) == [1]


def test_a_buffer_that_is_filled_now_and_then_is_fed_by_a_loader(tmp_path):
    iterator = []

    def step(loop, k):
        iterator[:] = iterator or [loop.start(1)]
        if k % 4 == 0:
            loop.ask(iterator[0], 12)
        loop.call(16)
        loop.train()

    trainer, _ = _trained(tmp_path, step)

    assert (trainer.waits.height, trainer.is_fed) == (12 * STEPS // 4, False)
