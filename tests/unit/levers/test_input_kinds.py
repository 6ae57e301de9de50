"""Every lever of input with every kind of loader: the script notices nothing, and nothing is left behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler, get_worker_info
from torch.utils.data import dataloader as torchs

from made_trainings import Samples, Script, plan_of, walk
from slowstep.frameworks.torch.inside.levers._input.ring import Ring

LEVERS = ("mock-loader", "constant-batch", "workers=3", "prefetch=3", "persistent-workers", "batch-size=8")
# Each lever beside the training as it is, in both orders, with epochs of 20 batches in between.
BLOCKS = [0, 1, 2, 3, 0, 4, 5, 6, 0, 6, 5, 4, 0, 3, 2, 1, 0]
LENGTH = 20


class Stream(IterableDataset[torch.Tensor]):
    """As many samples as LENGTH batches of 4, shared among the workers."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        share = 1 if info is None else info.num_workers
        return iter(torch.zeros(4 * LENGTH // share, 4))


class Sized(Stream):
    def __len__(self) -> int:
        return 4 * LENGTH


class Own(DataLoader[Any]):
    """A subclass with an argument that it must have, and an `__iter__` that changes batches on their way."""

    def __init__(self, factor: float, **arguments: Any) -> None:
        super().__init__(Samples(4 * LENGTH), batch_size=4, **arguments)
        self.factor = factor

    def __iter__(self) -> Any:
        for batch in super().__iter__():
            yield batch * self.factor


class Pairs(BatchSampler):
    """A batch sampler of the script's own."""


def start_worker(worker: int) -> None:
    assert get_worker_info() is not None


def made(**arguments: Any) -> Callable[[], DataLoader[Any]]:
    return lambda: DataLoader(Samples(4 * LENGTH), batch_size=4, **arguments)


def with_sampler() -> DataLoader[Any]:
    samples = Samples(4 * LENGTH)
    return DataLoader(samples, batch_sampler=Pairs(SequentialSampler(samples), 4, False), num_workers=2)


def ready(loader: Any) -> Any:
    """What script code does with a sampler: it is told of epochs, and asked for its length."""
    assert len(loader) == LENGTH
    return loader


KINDS: dict[str, Callable[[], Any]] = {
    "in the training's process": made(),
    "one worker": made(num_workers=1),
    "two workers, shuffled": made(num_workers=2, shuffle=True),
    "persistent workers": made(num_workers=2, persistent_workers=True),
    "out of order": made(num_workers=2, in_order=False),
    "with all arguments": made(
        num_workers=2, worker_init_fn=start_worker, generator=torch.Generator(), drop_last=True, timeout=30, prefetch_factor=4
    ),
    "with replacement": lambda: DataLoader(
        samples := Samples(4 * LENGTH), batch_size=4, sampler=RandomSampler(samples, replacement=True), num_workers=1
    ),
    "batches from the data set": lambda: DataLoader(Samples(LENGTH), batch_size=None, num_workers=2),
    "a batch sampler": with_sampler,
    "a subclass": lambda: Own(1.0, num_workers=1),
    "a stream": lambda: DataLoader(Stream(), batch_size=4),
    "a stream with workers": lambda: DataLoader(Stream(), batch_size=4, num_workers=2),
    "a stream with a length": lambda: ready(DataLoader(Sized(), batch_size=4, num_workers=2)),
    "a stream with persistent workers": lambda: DataLoader(Stream(), batch_size=4, num_workers=2, persistent_workers=True),
}
# What each lever becomes where it is refused.
REFUSED = {
    "in the training's process": {"prefetch=3", "persistent-workers"},
    "persistent workers": {"persistent-workers"},
    "batches from the data set": {"batch-size=8"},
    "a batch sampler": {"batch-size=8"},
    # In one process a stream cannot be read by two iterators.
    "a stream": {"prefetch=3", "persistent-workers", "batch-size=8"},
    "a stream with persistent workers": {"persistent-workers"},
}
QUICK = {"in the training's process"}
# Forms of others: with fewer workers, another order of samples, a length, or workers that stay.
AT_NIGHT = {"one worker", "with replacement", "a stream with a length", "a stream with persistent workers"}
UNEVEN = {"a stream", "a stream with workers", "a stream with persistent workers"}


def train(script: Script, loader: Any, epochs: list[int]) -> None:
    """Epoch after epoch until the plan is done, each counted."""
    more = True
    while more:
        count = 0
        for count, batch in enumerate(loader, start=1):  # noqa: B007 - of a whole epoch
            if not (more := script.step(batch)):
                break
        else:
            epochs.append(count)


def torch_attributes() -> list[Any]:
    single, multi = torchs._SingleProcessDataLoaderIter, torchs._MultiProcessingDataLoaderIter
    return [single._next_data, multi._next_data, multi._reset, torchs.DataLoader._get_iterator, torchs.DataLoader.__iter__]


def marked(kind: str) -> Any:
    marks = [] if kind in QUICK else [pytest.mark.slow, *([pytest.mark.nightly] if kind in AT_NIGHT else [])]
    return pytest.param(kind, marks=marks)


@pytest.mark.parametrize("kind", [marked(kind) for kind in KINDS])
def test_no_lever_changes_what_the_script_sees_of_any_loader(kind: str, tmp_path: Path) -> None:
    loader, epochs = KINDS[kind](), list[int]()
    before = torch_attributes()
    # An epoch change is seen before the plan is posted.
    walked = walk(tmp_path / "r", plan_of(LEVERS, BLOCKS, steps=6), partial(train, loader=loader, epochs=epochs), lead_in=LENGTH + 5)

    assert walked.done
    assert walked.faults == {}
    assert epochs
    if kind not in UNEVEN:
        assert set(epochs) == {LENGTH}
    for arm, lever in enumerate(LEVERS, start=1):
        expected = ["not applicable"] if lever in REFUSED.get(kind, set()) else ["ready", "effect"]
        assert (lever, walked.became(arm)) == (lever, expected), walked.notes
    counted = Counter(walked.steps.arm[~walked.steps.settling].tolist())
    assert counted == {arm: 6 * BLOCKS.count(arm) for arm in range(7) if walked.became(arm) != ["not applicable"]}
    assert torch_attributes() == before


@pytest.mark.slow
def test_a_loader_made_anew_for_each_epoch_is_fed_too(tmp_path: Path) -> None:
    epochs: list[int] = []

    def train(script: Script) -> None:
        more = True
        while more:
            count = 0
            for count, batch in enumerate(made(num_workers=1)(), start=1):  # noqa: B007 - of a whole epoch
                if not (more := script.step(batch)):
                    break
            else:
                epochs.append(count)

    walked = walk(tmp_path / "r", plan_of(["mock-loader", "workers=2"], [0, 1, 2, 0, 1, 2], steps=15), train)

    assert walked.done
    assert walked.faults == {}
    assert set(epochs) == {LENGTH}
    assert [walked.became(arm) for arm in (1, 2)] == [["ready", "effect"]] * 2


@pytest.mark.parametrize("what", ["give", "end", "both"])
def test_an_epoch_has_its_batches_though_the_lever_that_gives_them_fails(tmp_path: Path, monkeypatch: Any, what: str) -> None:
    """The lever is given up at the next boundary; the script's own iterator, which was asked for fewer, must not give more until then."""
    loader, epochs, calls = made()(), list[int](), Counter[str]()

    def failing(name: str, at: int) -> None:
        usual = getattr(Ring, name)

        def call(self: Ring, *args: Any) -> Any:
            calls[name] += 1
            if calls[name] == at:
                raise OSError("gone")
            return usual(self, *args)

        monkeypatch.setattr(Ring, name, call)

    if what in ("give", "both"):
        failing("give", 7)
    if what in ("end", "both"):
        failing("end", 1)

    plan = plan_of(["mock-loader"], [0, 1] * 2, steps=LENGTH)
    walked = walk(tmp_path / "r", plan, lambda script: train(script, loader, epochs))

    assert walked.became(1) == ["ready", "failed"]
    assert set(epochs) == {LENGTH}


@pytest.mark.slow
def test_a_script_that_asks_for_batches_one_by_one_gets_as_many_as_ever(tmp_path: Path) -> None:
    """`next(iterator)` raises into a script that is told of the end of an epoch where it does not expect it."""
    loader = made(num_workers=2)()

    def train(script: Script) -> None:
        while True:
            iterator = iter(loader)
            for _ in range(len(loader)):
                if not script.step(next(iterator)):
                    return

    walked = walk(tmp_path / "r", plan_of(["mock-loader", "workers=1", "batch-size=2"], [0, 1, 2, 3] * 3, steps=9), train)

    assert walked.done
    assert walked.faults == {}
    assert [walked.became(arm) for arm in (1, 2, 3)] == [["ready", "effect"]] * 3


@pytest.mark.slow
def test_a_loop_that_is_left_early_begins_a_new_epoch(tmp_path: Path) -> None:
    loader = made(num_workers=1)()

    def train(script: Script) -> None:
        more = True
        while more:
            for count, batch in enumerate(loader, start=1):
                if not (more := script.step(batch)) or count == 7:
                    break

    walked = walk(tmp_path / "r", plan_of(["mock-loader", "workers=2"], [0, 1, 2, 0, 2, 1], steps=12), train)

    assert walked.done
    assert walked.faults == {}
    assert walked.effect(2)[1]["epoch_changes"] >= 2


@pytest.mark.slow
def test_two_iterators_of_one_loader_are_two(tmp_path: Path) -> None:
    """A script may read its loader twice at a time: while one iterator is in use it is not handed out a second time."""
    loader = made(num_workers=1)()
    lengths: list[int] = []

    def train(script: Script) -> None:
        while True:
            count = 0
            for first, second in zip(loader, loader, strict=True):
                count += 1
                if not script.step(torch.cat([first, second])):
                    return
            lengths.append(count)

    walked = walk(tmp_path / "r", plan_of(["workers=2", "mock-loader"], [1, 0, 2, 1, 0, 2], steps=15), train)

    assert walked.done
    assert walked.faults == {}
    assert set(lengths) == {LENGTH}


def test_workers_do_not_stay_where_the_script_changes_its_data_set_between_epochs(tmp_path: Path) -> None:
    loader = made(num_workers=1)()

    def train(script: Script) -> None:
        loader.dataset.epoch, more = 0, True
        while more:
            loader.dataset.epoch += 1
            more = all(script.step(batch) for batch in loader)

    walked = walk(tmp_path / "r", plan_of(["persistent-workers"], [0, 1, 0, 1], steps=6), train, lead_in=2 * LENGTH + 5)

    assert walked.faults == {}
    assert walked.became(1) == ["not applicable"]
