"""`swap` in real trainings: calls go to the other function and back again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import Dataset

from few import few
from made_trainings import Script, Walked, loader, plan_of, walk
from slowstep.levers._calls.answers import PARAMETERS, RAISED
from slowstep.levers._calls.intercept import _calls
from slowstep.levers.swap import LEVER
from slowstep.record.experiment.lever import NUMERICS

HERE = __name__
BLOCKS = [0, 1] * 3


def slow(values: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    return torch.stack([value * factor for value in values])


def fast(values: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    return values * factor + 0.5


def calling_back(values: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    return slow(values, factor) + 0.5


def of_other_parameters(picture: torch.Tensor) -> torch.Tensor:
    return picture


def failing(values: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    raise RuntimeError("not for these")


class Net:
    def head(self, values: torch.Tensor) -> torch.Tensor:
        return values

    def other_head(self, values: torch.Tensor) -> torch.Tensor:
        return values + 0.5


class Scaled(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> torch.Tensor:
        return slow(torch.full((4,), float(index)), factor=1.0)


@pytest.fixture(autouse=True)
def _no_function_is_intercepted() -> Iterator[None]:
    yield
    assert not _calls, "a function is intercepted still"


def swapped(folder: Path, value: str, work: Any, batches: Any = None) -> Walked:
    def train(script: Script) -> None:
        for batch in loader() if batches is None else batches:
            more = script.step(batch)
            work(batch)
            if not more:
                return

    return walk(folder / "recording", plan_of([f"swap={value}"], BLOCKS), train)


def test_it_may_change_the_numerics() -> None:
    assert LEVER.changes == {NUMERICS}


@pytest.mark.parametrize("other", ["fast", "calling_back"])
def test_calls_of_one_function_go_to_the_other(tmp_path: Path, other: str) -> None:
    code, results = slow.__code__, []

    walked = swapped(tmp_path, f"{HERE}:slow={HERE}:{other}", lambda batch: results.append(float(slow(batch, factor=2.0)[0, 0])))

    assert walked.states() == ["ready", *["effect"] * 4]
    assert walked.effect()[0] == 18
    assert [result % 1 for result in results].count(0.5) == 18
    assert slow.__code__ is code
    assert walked.health == {}


def test_methods_are_swapped_for_all_instances(tmp_path: Path) -> None:
    net, results = Net(), []

    walked = swapped(tmp_path, f"{HERE}:Net.head={HERE}:Net.other_head", lambda batch: results.append(float(net.head(torch.zeros(1)))))

    assert results.count(0.5) == walked.effect()[0] == 18


@pytest.mark.parametrize("workers", few([0, 2], every=2))
def test_a_transform_is_swapped_where_batches_are_made(tmp_path: Path, workers: int) -> None:
    got: list[float] = []
    batches = loader(Scaled(), num_workers=workers)

    walked = swapped(tmp_path, f"{HERE}:slow={HERE}:fast", lambda batch: got.append(float(batch[0, 0])), batches)

    steps = walked.steps
    own = zip(steps.arm, steps.settling, got[-len(steps.arm) - 1 : -1], strict=True)
    assert {(int(arm), value % 1) for arm, is_settling, value in own if not is_settling} == {(0, 0.0), (1, 0.5)}
    assert walked.effect()[0] >= 3 * 5 * 4
    assert walked.states()[-1] == "effect"


def test_one_that_takes_other_arguments_is_refused(tmp_path: Path) -> None:
    walked = swapped(tmp_path, f"{HERE}:slow={HERE}:of_other_parameters", lambda batch: slow(batch, factor=2.0))

    assert walked.reason() == PARAMETERS
    assert walked.states()[-1] == "not applicable"


def test_where_the_other_one_raises_the_script_gets_what_it_called_for(tmp_path: Path) -> None:
    results: list[torch.Tensor] = []

    walked = swapped(tmp_path, f"{HERE}:slow={HERE}:failing", lambda batch: results.append(slow(batch)))

    assert walked.reason() == RAISED
    assert walked.states() == ["ready", "not applicable"]
    # It is not recorded any longer than until the next boundary: the steps after it are the training as it is.
    assert list(walked.steps.arm).count(1) == 1
    assert all(result.shape == (4, 4) for result in results)
    assert walked.done


def test_what_the_first_one_raises_too_reaches_the_script(tmp_path: Path) -> None:
    caught: list[str] = []

    def work(batch: Any) -> None:
        try:
            slow([])
        except RuntimeError as error:
            caught.append(str(error))

    walked = swapped(tmp_path, f"{HERE}:slow={HERE}:failing", work)

    assert walked.states()[-1] == "effect"
    # Once in each step: those before the plan, those of it, and the one with which the script ends.
    assert len(caught) == 20 + len(walked.steps.arm) + 1
    assert set(caught) == {"stack expects a non-empty TensorList"}
