"""`validation-off` in loops of the script's own: validations end after their first batch, other loaders do not."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from made_trainings import Samples, Script, Walked, loader, plan_of, walk
from slowstep.levers._calls.intercept import _calls

BLOCKS = (0, 1, 0, 1)


@pytest.fixture(autouse=True)
def _no_function_is_intercepted() -> Iterator[None]:
    yield
    assert not _calls, "a function is intercepted still"


def validated(folder: Path, validation: Any, lever: str = "validation-off", every: int = 2, **more: Any) -> tuple[Walked, list[int]]:
    """A training that validates every few steps; how many batches each validation had."""
    lengths: list[int] = []

    def train(script: Script) -> None:
        batches = loader()
        for step, batch in enumerate(batches):
            more = script.step(batch)
            if step % every == 0:
                values = [float(values.mean()) for values in validation]
                lengths.append(len(values))
                assert sum(values) / len(values) >= 0
            if not more:
                return

    return walk(folder / "recording", plan_of([lever], BLOCKS, steps=9), train, **more), lengths


@pytest.mark.parametrize(
    "how",
    [{}, pytest.param({"num_workers": 1}, marks=pytest.mark.slow), {"num_workers": 1, "persistent_workers": True}],
    ids=["here", "worker", "persistent"],
)
def test_a_validation_ends_after_its_first_batch(tmp_path: Path, how: dict[str, Any]) -> None:
    walked, lengths = validated(tmp_path, loader(Samples(20), **how))

    assert set(lengths) == {1, 5}
    # Two blocks of nine counted steps and one dropped, every second of which validates.
    effect, facts = walked.effect()
    assert (effect, facts["left_out"], facts["batches_kept"]) == (10, {"validation": 10}, 10)
    assert lengths.count(1) == 10
    assert walked.health == {}


@pytest.mark.slow
def test_what_the_first_batches_took_is_measured_in_counted_steps(tmp_path: Path) -> None:
    class Slow(Samples):
        def __getitem__(self, index: int) -> torch.Tensor:
            time.sleep(0.005)
            return super().__getitem__(index)

    walked, _ = validated(tmp_path, loader(Slow(20)))

    # Four samples each. Of ten validations that were cut short, one may lie in the step that is dropped from each block.
    facts = walked.effect()[1]
    assert 20e6 <= facts["kept_each_ns"] < 60e6
    assert facts["kept_ns"] / facts["kept_each_ns"] == pytest.approx(9, abs=1.01)


def test_where_a_validation_reads_a_single_batch_it_has_no_meaning(tmp_path: Path) -> None:
    walked, lengths = validated(tmp_path, loader(Samples(4)))

    assert set(lengths) == {1}
    assert walked.states() == ["not applicable"]
    assert "a single batch" in walked.reason()


def test_a_validation_that_is_left_after_two_batches_is_one_of_several(tmp_path: Path) -> None:
    class Left:
        def __iter__(self) -> Iterator[Any]:
            return iter([values for values, _ in zip(held, range(2), strict=False)])

    held = loader(Samples(20))
    walked, lengths = validated(tmp_path, Left())

    assert set(lengths) == {1, 2}
    assert walked.effect()[0] == lengths.count(1)


def test_one_validation_in_k_is_whole(tmp_path: Path) -> None:
    walked, lengths = validated(tmp_path, loader(Samples(20)), "validation-off:every=5")

    # Of ten validations eight are cut short.
    assert walked.effect()[0] == lengths.count(1) == 8


def test_a_loader_that_is_made_anew_for_each_validation_is_known_too(tmp_path: Path) -> None:
    class Fresh:
        def __iter__(self) -> Iterator[Any]:
            made = loader(Samples(20))
            return iter([*made])

    walked, lengths = validated(tmp_path, Fresh())

    assert set(lengths) == {1, 5}
    assert walked.effect()[0] == lengths.count(1)


@pytest.mark.parametrize("at_a_time", [1, 2])
def test_a_second_loader_that_feeds_the_training_is_not_cut_short(tmp_path: Path, at_a_time: int) -> None:
    begun: list[int] = []

    def train(script: Script) -> None:
        labelled, unlabelled, validation = loader(), loader(Samples(40)), loader(Samples(20))
        own, other = iter(labelled), iter(())  # type: ignore[var-annotated]
        goes_on, step = True, 0
        while goes_on:
            more = [*itertools.islice(other, at_a_time)]
            if not more:
                begun.append(step)
                other = iter(unlabelled)
                more = [*itertools.islice(other, at_a_time)]
            # What is read last before the update is taken for the training's loader.
            goes_on = script.step(torch.cat([*more, next(own)]))
            step += 1
            if step % 2 == 0:
                assert len(list(validation)) in (1, 5)

    walked = walk(tmp_path / "recording", plan_of(["validation-off"], BLOCKS, steps=9), train)

    # Ten batches an epoch, whatever the lever does.
    assert {after - before for before, after in itertools.pairwise(begun)} == {10 // at_a_time}
    assert walked.effect()[0] == 10


def test_an_epochs_new_loader_whose_batches_a_step_joins_is_not_cut_short(tmp_path: Path) -> None:
    lengths: list[int] = []

    def epoch(script: Script, step: int) -> bool:
        own, more = iter(loader(Samples(24))), True
        while joined := [*itertools.islice(own, 3)]:
            lengths.append(len(joined))
            more = script.step(torch.cat(joined))
            step += 1
            if step % 2 == 0:
                assert len(list(validation)) in (1, 5)
        return more

    def train(script: Script) -> None:
        while epoch(script, len(lengths)):
            pass

    validation = loader(Samples(20))
    walk(tmp_path / "recording", plan_of(["validation-off"], BLOCKS, steps=9), train)

    assert set(lengths) == {3}


@pytest.mark.parametrize("has_gradient", [True, False], ids=["joined by the step", "validated in each step"])
def test_a_second_loader_that_is_begun_anew_in_each_step_is_input_where_gradients_are_on(tmp_path: Path, has_gradient: bool) -> None:
    lengths: list[int] = []

    def train(script: Script) -> None:
        own, other, goes_on = itertools.cycle(loader()), loader(Samples(40)), True
        while goes_on:
            with torch.set_grad_enabled(has_gradient):
                more = [*itertools.islice(iter(other), 4)]
            lengths.append(len(more))
            goes_on = script.step(torch.cat([*more, next(own)]))

    walked = walk(tmp_path / "recording", plan_of(["validation-off"], BLOCKS, steps=9), train)

    assert set(lengths) == ({4} if has_gradient else {1, 4})
    assert walked.states()[0] == ("not applicable" if has_gradient else "ready")


@pytest.mark.parametrize("validation", [[], [torch.zeros(4)] * 3], ids=["none", "arrays"])
def test_where_no_loader_validates_it_has_no_meaning(tmp_path: Path, validation: Any) -> None:
    def train(script: Script) -> None:
        batches = loader()
        for batch in batches:
            more = script.step(batch)
            for values in validation:
                values.mean()
            if not more:
                return

    walked = walk(tmp_path / "recording", plan_of(["validation-off"], BLOCKS), train)

    assert walked.states() == ["not applicable"]
    assert "use stub=MODULE:FUNCTION" in walked.reason()
    assert walked.done
