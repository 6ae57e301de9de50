from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

torch = pytest.importorskip("torch")

from slowstep.frameworks.torch.inside._autograd.used_forwards import UsedForwards  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402


class Training:
    """Calls of models as the hooks tell of them."""

    def __init__(self) -> None:
        self.faults: list[Exception] = []
        self.used = UsedForwards(cast(Recorder, SimpleNamespace(forgetters=[], fault=self.faults.append)))
        self.used.ask(torch)
        self.model, self.teacher = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def call(self, model: Any, samples: int) -> Any:
        key = (id(model), samples, model.training)
        if key in self.used.is_used:
            return model(torch.ones(samples, 4))
        first = self.used.begun()
        result = model(torch.ones(samples, 4))
        self.used.ended(key, first)
        return result

    def backward(self, *tensors: Any) -> None:
        if self.used.open:
            self.used.passes(tensors)
        sum(tensor.sum() for tensor in tensors).backward()

    def knows(self, model: Any, samples: int) -> bool | None:
        return self.used.is_used.get((id(model), samples, model.training))


@pytest.fixture
def training() -> Iterator[Training]:
    training = Training()
    yield training
    assert training.faults == []


def test_an_agent_that_plays_with_gradients_on_is_told_from_its_training(training: Training) -> None:
    for _ in range(6):
        for _ in range(10):
            training.call(training.model, 1)
        training.backward(training.call(training.model, 64))

    assert training.knows(training.model, 64) is True
    assert training.knows(training.model, 1) is False
    assert training.used.open == []


def test_a_validation_in_evaluation_mode_is_told_from_batches_of_the_same_size(training: Training) -> None:
    for _ in range(6):
        training.model.eval()
        training.call(training.model, 64)
        training.model.train()
        training.backward(training.call(training.model, 64))

    assert training.knows(training.model, 64) is True
    training.model.eval()
    assert training.knows(training.model, 64) is False


def test_episodes_whose_calls_all_lead_to_the_loss_are_used(training: Training) -> None:
    for _ in range(6):
        training.backward(*[training.call(training.model, 1) for _ in range(20)])

    assert training.knows(training.model, 1) is True


def test_what_only_a_later_pass_goes_through_is_used(training: Training) -> None:
    critic = torch.nn.Linear(4, 1)
    for _ in range(6):
        fake = training.call(training.model, 8)
        training.backward(training.call(critic, 8) + critic(fake.detach()))
        training.backward(critic(fake))

    assert training.knows(training.model, 8) is True


def test_a_teacher_that_is_never_trained_is_left_alone(training: Training) -> None:
    for _ in range(20):
        target = training.call(training.teacher, 8).detach()
        training.backward(training.call(training.model, 8) - target)

    assert training.knows(training.teacher, 8) is True


def test_a_frozen_model_makes_no_nodes_and_nothing_is_asked_of_it(training: Training) -> None:
    training.teacher.requires_grad_(False)
    for _ in range(20):
        training.backward(training.call(training.model, 8) - training.call(training.teacher, 8))

    assert training.knows(training.teacher, 8) is None
    assert training.used.open == []


def test_one_call_for_each_pass_costs_no_walk(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slowstep.frameworks.torch.inside._autograd.used_forwards.nodes_below", lambda tensors, most: pytest.fail("walked"))
    for _ in range(3):
        training.backward(training.call(training.model, 8))

    assert training.knows(training.model, 8) is True


def test_a_single_call_is_not_taken_for_used_where_the_training_s_own_are_known(training: Training) -> None:
    training.backward(training.call(training.model, 64))
    training.call(training.model, 1)
    training.backward(training.call(training.model, 64))

    assert training.knows(training.model, 1) is None
    assert [call.key[1] for call in training.used.open] == [1]


def test_of_a_graph_that_is_too_large_nothing_is_known(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slowstep.frameworks.torch.inside._autograd.used_forwards._MOST_NODES", 1)
    training.used._forget()
    for _ in range(6):
        training.call(training.model, 1)
        training.backward(training.call(training.model, 64))

    assert not training.used.asks
    assert training.used.open == []
    assert training.knows(training.model, 1) is None


def test_where_nodes_do_not_tell_their_numbers_nothing_is_known(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slowstep.frameworks.torch.inside._autograd.used_forwards._number_of", lambda node: None)
    for _ in range(6):
        training.call(training.model, 1)
        training.backward(training.call(training.model, 64))

    assert not training.used.asks
    assert training.knows(training.model, 1) is None


def test_calls_without_any_pass_end_the_asking(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slowstep.frameworks.torch.inside._autograd.used_forwards._MOST_OPEN", 5)
    for _ in range(6):
        training.call(training.model, 1)

    assert not training.used.asks
    assert training.used.open == []


def test_another_thread_s_pass_says_nothing_of_this_one_s_calls(training: Training) -> None:
    training.call(training.model, 1)
    other = threading.Thread(target=lambda: training.backward(training.call(training.teacher, 8)))
    other.start()
    other.join()

    assert training.knows(training.teacher, 8) is True
    assert training.knows(training.model, 1) is None
    assert [call.key[0] for call in training.used.open] == [id(training.model)]


def test_a_pass_whose_graph_cannot_be_read_is_a_fault_and_ends_the_asking(training: Training) -> None:
    class Odd:
        @property
        def grad_fn(self) -> Any:
            raise RuntimeError("no")

    training.call(training.model, 1)
    training.call(training.model, 2)
    training.used.passes(Odd())

    assert [str(fault) for fault in training.faults] == ["no"]
    training.faults.clear()
    assert not training.used.asks
