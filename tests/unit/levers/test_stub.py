"""`stub` in real trainings: what it leaves out, that nothing is left of it, and what is refused."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from made_trainings import Script, Walked, loader, plan_of, walk
from slowstep.levers._calls import answers
from slowstep.levers._calls.answers import ASKS, UPDATES
from slowstep.levers._calls.intercept import _calls
from slowstep.levers._calls.values import CHANGED, GRAPH, ONCE

HERE = __name__
BLOCKS = [0, 1] * 4
CALLED: list[Any] = []


def plot(batch: Any) -> int:
    """What runs after every step."""
    CALLED.append(batch)
    time.sleep(0.003)
    return len(CALLED)


def rarely_called() -> None:
    """Called by nobody."""


def weights(batch: torch.Tensor) -> torch.Tensor:
    """As many as the batch has samples."""
    CALLED.append(len(batch))
    return torch.ones(len(batch))


def loss_of(model: Any, batch: Any) -> torch.Tensor:
    return model(batch).mean()


def noisy() -> np.ndarray:
    return np.zeros(64)


def lines() -> Iterator[int]:
    return iter([1, 2])


def scaled(sample: torch.Tensor) -> torch.Tensor:
    """A transform, which takes a known time."""
    time.sleep(0.002)
    return sample / 2


class Compose:
    def __init__(self, *transforms: Callable[[Any], Any]) -> None:
        self.transforms = transforms

    def __call__(self, sample: Any) -> Any:
        return functools.reduce(lambda value, transform: transform(value), self.transforms, sample)


class Transformed(Dataset[torch.Tensor]):
    """Holds the function in a tuple inside an object, as torchvision does."""

    def __init__(self, count: int = 100_000) -> None:
        self.count, self.transform = count, Compose(scaled, torch.abs)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.transform(torch.full((4,), float(index)))  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Where another test has imported a framework whose arrays are used up, functions are watched for longer.
    monkeypatch.setattr(answers, "used_up_checks", lambda: ())
    CALLED.clear()
    yield
    assert not _calls, "a function is intercepted still"


def training_with(work: Callable[[Any], Any], batches: Any = None) -> Callable[[Script], None]:
    """Does some work after each step."""

    def train(script: Script) -> None:
        source = loader() if batches is None else batches
        while True:
            for batch in source:
                more = script.step(batch)
                work(batch)
                if not more:
                    return

    return train


def stubbed(folder: Path, function: str, train: Callable[[Script], None], blocks: list[int] = BLOCKS, **how: Any) -> Walked:
    return walk(folder / "recording", plan_of([f"stub={HERE}:{function}"], blocks, **how), train)


def test_a_function_of_the_script_is_left_out_and_given_back(tmp_path: Path) -> None:
    held, before, results = plot, (plot.__code__, plot.__defaults__, plot.__dict__.copy()), []

    walked = stubbed(tmp_path, "plot", training_with(lambda batch: results.append(held(batch))))

    assert walked.states() == ["ready", *["effect"] * 5]
    effect, facts = walked.effect()
    # Four blocks of five counted steps, each after one that is dropped.
    assert effect == 24
    assert facts["calls"] == effect + 1
    assert len(CALLED) == len(results) - effect
    assert plot.__code__ is before[0]
    assert (plot.__defaults__, plot.__dict__) == before[1:]
    assert walked.health == {}


def test_the_script_gets_what_the_function_returned_when_it_was_seen_last(tmp_path: Path) -> None:
    results: list[int] = []

    stubbed(tmp_path, "plot", training_with(lambda batch: results.append(plot(batch))), [0, 1, 0])

    (again,) = {result for result in results if results.count(result) > 1}
    at = [place for place, result in enumerate(results) if result == again]
    # Once as it is, when the plan was taken up; then six times in a row.
    assert len(at) == 7
    assert at[1:] == list(range(at[1], at[1] + 6))
    assert results[: at[0]] == list(range(1, again))


def test_a_function_that_is_never_called_has_no_effect(tmp_path: Path) -> None:
    walked = stubbed(tmp_path, "rarely_called", training_with(lambda batch: None))

    assert walked.states() == ["ready", *["effect"] * 5]
    assert walked.effect()[0] == 0


def test_one_call_in_k_is_made(tmp_path: Path) -> None:
    plan = plan_of([f"stub={HERE}:plot:every=3"], [1, 0], steps=11)

    walked = walk(tmp_path / "recording", plan, training_with(plot))

    effect, facts = walked.effect()
    # Of the twelve calls in the block four are made.
    assert effect == 8
    assert facts["calls"] == 1 + 12


@pytest.mark.parametrize("every", [3, pytest.param(2, marks=pytest.mark.slow), pytest.param(5, marks=pytest.mark.slow)])
def test_of_the_calls_in_counted_steps_one_in_k_is_made(tmp_path: Path, every: int) -> None:
    got: list[Any] = []

    def work(batch: Any) -> None:
        got.append(batch)
        plot(batch)

    plan = plan_of([f"stub={HERE}:plot:every={every}"], [0, 1] * 6)

    walked = walk(tmp_path / "recording", plan, training_with(work))

    steps, made = walked.steps, {id(batch) for batch in CALLED}
    own = got[-len(steps.arm) - 1 : -1]
    counted = [batch for arm, settling, batch in zip(steps.arm, steps.settling, own, strict=True) if arm == 1 and not settling]
    assert len(counted) == 30
    assert sum(id(batch) in made for batch in counted) == 30 // every


def test_a_result_of_the_batchs_size_is_returned_for_batches_of_that_size_only(tmp_path: Path) -> None:
    def weighed(batch: Any) -> None:
        assert (weights(batch) * batch[:, 0]).shape == (len(batch),)

    # Batches of 4, 4, 4 and 2.
    samples = torch.utils.data.TensorDataset(torch.zeros(14, 4))
    batches = loader(samples, collate_fn=lambda rows: torch.stack([row[0] for row in rows]))

    walked = stubbed(tmp_path, "weights", training_with(weighed, batches))

    assert walked.states()[-1] == "effect"
    assert walked.effect()[0] >= 12
    assert set(CALLED) == {4, 2}


def kinds_of_batches(walked: Walked, batches: list[torch.Tensor]) -> dict[int, set[int]]:
    """By arm: how many different samples the batches of its counted steps have. A stub gives the same one again and again."""
    steps = walked.steps
    # The batch after the last step is the one with which the script ends.
    own = batches[-len(steps.arm) - 1 : -1]
    found: dict[int, set[int]] = {0: set(), 1: set()}
    for arm, is_settling, batch in zip(steps.arm, steps.settling, own, strict=True):
        if not is_settling:
            found[int(arm)].add(len(set(batch[:, 0].tolist())))
    return found


@pytest.mark.parametrize(
    ("workers", "prefetch"),
    [
        (0, None),
        (1, 8),
        pytest.param(1, 2, marks=pytest.mark.slow),
        pytest.param(2, 2, marks=pytest.mark.slow),
    ],
)
def test_a_transform_is_left_out_where_batches_are_made(tmp_path: Path, workers: int, prefetch: int | None) -> None:
    got: list[torch.Tensor] = []
    batches = loader(Transformed(), num_workers=workers, prefetch_factor=prefetch)

    walked = stubbed(tmp_path, "scaled", training_with(got.append, batches), [0, 1] * 4, steps=4)

    effect, facts = walked.effect()
    assert walked.states()[-1] == "effect"
    assert kinds_of_batches(walked, got) == {0: {4}, 1: {1}}
    assert effect >= 4 * 4 * 4
    assert (facts["calls_in_workers"] > effect) == (workers > 0)
    assert (facts["calls"] > effect) == (workers == 0)
    assert scaled(torch.ones(1)) == 0.5
    assert walked.health == {}


@pytest.mark.slow
@pytest.mark.parametrize("persistent", [False, True])
def test_workers_of_a_new_epoch_obey_as_well(tmp_path: Path, persistent: bool) -> None:
    got: list[torch.Tensor] = []
    # Epochs of eleven batches: workers are forked, or begin anew, at any place of the blocks.
    batches = loader(Transformed(44), num_workers=1, persistent_workers=persistent)

    walked = stubbed(tmp_path, "scaled", training_with(got.append, batches), [0, 1] * 5, steps=6)

    assert walked.states()[-1] == "effect"
    assert kinds_of_batches(walked, got) == {0: {4}, 1: {1}}
    assert walked.effect()[0] > 5 * 6 * 4 / 2
    assert walked.health == {}


@pytest.mark.slow
def test_a_child_that_is_forked_while_it_is_on_has_the_function_itself(tmp_path: Path) -> None:
    code, children = plot.__code__, []

    def fork(batch: Any) -> None:
        plot(batch)
        if plot.__code__ is not code and len(CALLED) > 15:
            child = os.fork()
            if child == 0:
                os._exit(0 if plot.__code__ is code else 1)
            children.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    walked = stubbed(tmp_path, "plot", training_with(fork), [0, 1])

    assert len(children) >= 6
    assert set(children) == {0}
    assert walked.states()[-1] == "effect"


def refused_by(folder: Path, function: str, train: Callable[[Script], None]) -> str:
    walked = stubbed(folder, function, train, [0, 1, 0])
    assert walked.states()[-1] == "not applicable"
    assert walked.done
    return walked.reason()


def test_a_function_whose_result_carries_gradients_is_refused(tmp_path: Path) -> None:
    model = torch.nn.Linear(4, 1)

    assert refused_by(tmp_path, "loss_of", training_with(lambda batch: loss_of(model, batch))) == GRAPH


def test_a_function_whose_result_can_be_used_only_once_is_refused(tmp_path: Path) -> None:
    assert refused_by(tmp_path, "lines", training_with(lambda batch: lines())) == ONCE


def test_a_function_whose_result_is_changed_is_refused(tmp_path: Path) -> None:
    def change(batch: Any) -> None:
        values = noisy()
        values += 1

    assert refused_by(tmp_path, "noisy", training_with(change)) == CHANGED


@pytest.fixture
def script_function(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Makes a function one of this module, as those of a script are."""

    def define(name: str, function: Any) -> Any:
        monkeypatch.setitem(globals(), name, function)
        return function

    return define


def test_the_training_step_is_refused(tmp_path: Path, script_function: Any) -> None:
    def train(script: Script) -> None:
        batches = loader()
        step = script_function("step", lambda batch: script.step(batch))
        for batch in batches:
            if not step(batch):
                return

    assert refused_by(tmp_path, "step", train) == UPDATES


@pytest.mark.slow
def test_backward_alone_is_refused_too(tmp_path: Path, script_function: Any) -> None:
    model = torch.nn.Linear(4, 1)
    backward = script_function("backward", lambda batch: model(batch).sum().backward())

    assert refused_by(tmp_path, "backward", training_with(backward)) == UPDATES


def test_a_function_that_asks_for_another_batch_is_refused(tmp_path: Path, script_function: Any) -> None:
    def train(script: Script) -> None:
        batches = loader()
        iterator = iter(batches)
        second = script_function("second", lambda: next(iterator))
        while script.step(torch.cat([next(iterator), second()])):
            pass

    assert refused_by(tmp_path, "second", train) == ASKS


@pytest.mark.slow
def test_a_function_in_which_steps_end_is_refused(tmp_path: Path, script_function: Any) -> None:
    def train(script: Script) -> None:
        batches = loader()
        iterator = iter(batches)
        next_batch = script_function("next_batch", lambda: next(iterator))
        while script.step(next_batch()):
            pass

    assert "a step of the training ends inside" in refused_by(tmp_path, "next_batch", train)


@pytest.mark.slow
def test_a_function_of_another_thread_is_left_out_although_the_training_goes_on_meanwhile(tmp_path: Path) -> None:
    import threading

    ended = threading.Event()

    def beside() -> None:
        while not ended.is_set():
            plot(None)

    thread = threading.Thread(target=beside)

    def train(script: Script) -> None:
        thread.start()
        try:
            training_with(lambda batch: time.sleep(0.004))(script)
        finally:
            ended.set()
            thread.join()

    walked = stubbed(tmp_path, "plot", train)

    assert walked.states()[-1] == "effect"
    assert walked.effect()[0] > 100
