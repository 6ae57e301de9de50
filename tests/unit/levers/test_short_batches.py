"""Epochs end with a batch of fewer samples: at the script's place, whoever gives it, for another loader may be read beside it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, get_worker_info

from made_trainings import AS_IS, Samples, Script, plan_of, walk
from slowstep.frameworks.torch.inside.levers._input import stream as _stream
from slowstep.frameworks.torch.inside.levers._input.indices import BatchSizes, RepeatedSampler, Supply, sizes_of

# Ten batches of four samples, and one of two.
SAMPLES, FULL, LAST, LENGTH = 42, 4, 2, 11
PLAIN = [FULL] * (LENGTH - 1) + [LAST]


class Slow(Samples):
    """Data that is waited for."""

    def __init__(self) -> None:
        super().__init__(SAMPLES, 0.0005)


class Fails(Slow):
    """Three workers cannot make its last sample."""

    def __getitem__(self, index: int) -> torch.Tensor:
        info = get_worker_info()
        if info is not None and info.num_workers == 3 and index == SAMPLES - 1:
            raise ValueError("no such sample")
        return super().__getitem__(index)


class Zipped:
    """A training that reads two loaders at a time; `epochs` has the sizes of both loaders' batches in each."""

    def __init__(self, *data: Any, workers: int = 0, shuffle: bool = True) -> None:
        either: dict[str, Any] = {"batch_size": FULL, "shuffle": shuffle}
        one, other = data or (Slow(), Samples(SAMPLES))
        self._loaders = DataLoader(one, num_workers=workers, **either), DataLoader(other, **either)
        self.epochs: list[list[tuple[int, int]]] = []

    def __call__(self, script: Script) -> None:
        while True:
            self.epochs.append([])
            for one, other in zip(*self._loaders, strict=True):
                self.epochs[-1].append((len(one), len(other)))
                if not script.step(one[:1]):
                    return


def trained(folder: Path, lever: str, train: Zipped, blocks: Iterable[int] = (AS_IS, 1) * 6, steps: int = 7, lead_in: int = 20) -> Any:
    folder.mkdir(exist_ok=True)
    came = walk(folder / "r", plan_of([lever], blocks, steps), train, lead_in=lead_in)
    assert came.done
    return came


# Each starts workers anew a dozen times.
BY_WORKERS = [
    ("workers=1", 0),
    ("workers=3", 2),
    *(pytest.param(lever, 2, marks=pytest.mark.nightly) for lever in ("prefetch=3", "persistent-workers")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("lever", "workers"), BY_WORKERS)
def test_the_short_batch_ends_the_epoch_as_without_levers(lever: str, workers: int, tmp_path: Path) -> None:
    train = Zipped(workers=workers)
    trained(tmp_path, lever, train)

    *whole, _ = train.epochs
    assert len(whole) > 5
    assert whole == [list(zip(PLAIN, PLAIN, strict=True))] * len(whole)


@pytest.mark.slow
@pytest.mark.parametrize(("lever", "workers"), [("mock-loader", 2), ("constant-batch", 0)])
def test_cached_batches_are_as_large_as_those_read_beside_them(lever: str, workers: int, tmp_path: Path) -> None:
    train = Zipped(workers=workers)
    trained(tmp_path, lever, train)

    assert all(one == other for epoch in train.epochs for one, other in epoch)
    assert all(sizes == (FULL, FULL) for epoch in train.epochs for sizes in epoch[: LENGTH - 1])


# The last step of an epoch, and one in it; the others at night.
LEAD_INS = [pytest.param(lead_in, marks=[] if lead_in in (22, 26) else [pytest.mark.nightly]) for lead_in in range(20, 20 + LENGTH)]


@pytest.mark.slow
@pytest.mark.parametrize("lead_in", LEAD_INS)
@pytest.mark.parametrize(("lever", "workers"), [("mock-loader", 0), ("mock-loader=across-epochs", 1)])
def test_no_short_batch_is_cached_or_received_among_cached_ones(lever: str, workers: int, lead_in: int, tmp_path: Path) -> None:
    """Wherever in the epoch the first batch is kept, and the lever is switched on."""
    train = Zipped(workers=workers)
    trained(tmp_path, lever, train, (AS_IS, 1, AS_IS, 1), lead_in=lead_in)

    assert {sizes for epoch in train.epochs for sizes in epoch[: LENGTH - 1]} == {(FULL, FULL)}
    assert all(one == other for epoch in train.epochs for one, other in epoch)


@pytest.mark.slow
def test_a_lever_that_fails_leaves_the_training_at_its_place(tmp_path: Path) -> None:
    train = Zipped(Fails(), Samples(SAMPLES), workers=1, shuffle=False)
    came = trained(tmp_path, "workers=3", train, steps=20)

    assert came.became() == ["ready", "failed"]
    *whole, _ = train.epochs
    assert whole == [list(zip(PLAIN, PLAIN, strict=True))] * len(whole)


@pytest.mark.parametrize("lead_in", range(20, 20 + LENGTH))
def test_an_epoch_in_which_the_last_lever_goes_ends_as_ever(lead_in: int, tmp_path: Path) -> None:
    """Whatever its place in the epoch is then: its last step is one of them."""
    lengths: list[int] = []

    def train(script: Script) -> None:
        made, is_on = DataLoader(Samples(SAMPLES), batch_size=FULL), True
        while is_on:
            lengths.append(0)
            for batch in made:
                lengths[-1] += 1
                is_on = script.step(batch)

    assert walk(tmp_path / "r", plan_of(["mock-loader"], [AS_IS, 1]), train, lead_in=lead_in).done
    assert set(lengths) == {LENGTH}


def supply(left: int | None, samples: int = SAMPLES, given: int = 0, **arguments: Any) -> Supply:
    """Of a sampler that has given some batches already, with so many wanted."""
    sampler = BatchSampler(range(samples), FULL, arguments.get("drop_last", False))
    indices = iter(sampler)
    for _ in range(given):
        next(indices)
    made = Supply(indices, sampler, given)
    made.left = left
    return made


@pytest.mark.parametrize("given", [0, 3, LENGTH - 1, LENGTH])
@pytest.mark.parametrize("left", [0, 1, 2, LENGTH, 3 * LENGTH])
def test_a_supply_ends_with_a_short_batch_wherever_its_sampler_is(given: int, left: int) -> None:
    assert [len(batch) for batch in supply(left, given=given)] == ([FULL] * (left - 1) + [LAST] if left else [])


def test_a_supply_without_short_batches_has_none() -> None:
    assert [len(batch) for batch in supply(25, drop_last=True)] == [FULL] * 25
    assert [len(batch) for batch in supply(25, samples=40)] == [FULL] * 25


def test_an_epoch_of_one_short_batch_has_that() -> None:
    assert [len(batch) for batch in supply(1, samples=3, given=1)] == [3]


@pytest.mark.parametrize(
    ("given", "made", "left", "expected"),
    [
        (0, [], 5, 0),
        (4, [2, 3], 5, 0),
        # Full ones, where the epoch has so many left only.
        (4, [2, 3], 2, 1),
        (4, [2, 3], 1, 2),
        (LENGTH, [8, 9, 10], 3, 0),
        # The short one is too early, and then too late.
        (LENGTH, [8, 9, 10], 4, 3),
        (LENGTH, [8, 9, 10], 2, 1),
    ],
)
def test_what_is_being_made_goes_until_the_rest_is_in_its_place(given: int, made: list[int], left: int, expected: int) -> None:
    assert supply(None, given=given).misplaced(made, left) == expected


def test_nothing_is_misplaced_where_nothing_is_known() -> None:
    assert Supply(iter(range(3)), range(3), 3).misplaced([0, 1, 2], 1) == 0


def test_short_ones_are_known_by_their_number_after_the_sampler_began_anew() -> None:
    going_on = supply(3, given=9)
    list(going_on)

    assert [number for number in range(20) if going_on.is_short(number)] == [11]
    assert going_on.remaining() is going_on


class Own(BatchSampler):
    """Decides itself what is in a batch."""


class Endless(RandomSampler):
    def __len__(self) -> int:
        raise TypeError("nobody knows")


@pytest.mark.parametrize(
    "sampler",
    [
        range(SAMPLES),
        Own(range(SAMPLES), FULL, False),
        BatchSampler(Endless(range(SAMPLES)), FULL, False),
        BatchSampler(range(SAMPLES), FULL, True),
        BatchSampler(range(40), FULL, False),
    ],
    ids=["of no batches", "the script's own", "without a length", "without the rest", "without a rest"],
)
def test_of_other_samplers_no_sizes_are_known(sampler: Any) -> None:
    assert sizes_of(sampler) is None


def test_sizes_are_those_of_an_epoch() -> None:
    assert sizes_of(BatchSampler(range(SAMPLES), FULL, False)) == BatchSizes(full=FULL, last=LAST, length=LENGTH)


def test_repeated_batches_end_an_epoch_like_others() -> None:
    like = BatchSampler(range(10), FULL, False)
    repeated = RepeatedSampler(list(like), like)
    made = Supply(iter(repeated), repeated)
    made.left = 6

    assert len(repeated) == 2
    assert [len(batch) for batch in made] == [4, 4, 4, 4, 4, 2]
    assert len(RepeatedSampler([[0, 1]], BatchSampler(range(2), FULL, False))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("left", [1, 4, 5, 30])
@pytest.mark.parametrize("taken", [0, 7, 10])
def test_an_iterator_with_workers_gives_the_short_one_last(taken: int, left: int) -> None:
    iterator: Any = iter(DataLoader(Samples(SAMPLES), batch_size=FULL, num_workers=2))
    stream = _stream.Stream(iterator, type(iterator)._next_data)
    for _ in range(taken):
        stream.take()

    stream.allow(left)

    assert [len(stream.take()) for _ in range(left)] == [FULL] * (left - 1) + [LAST]
    stream.close()


@pytest.mark.parametrize("left", [1, 5, 30])
def test_so_it_does_after_batches_were_discarded(left: int) -> None:
    iterator: Any = iter(DataLoader(Samples(SAMPLES), batch_size=FULL, num_workers=2))
    stream = _stream.Stream(iterator, type(iterator)._next_data)
    for _ in range(6):
        stream.take()
    while not stream.is_idle():
        pass

    stream.bring_to(1, 0, left=left)

    assert [len(stream.take()) for _ in range(left)] == [FULL] * (left - 1) + [LAST]
    stream.close()


def test_of_ready_batches_the_short_one_is_known() -> None:
    iterator: Any = iter(DataLoader(Samples(SAMPLES), batch_size=FULL, num_workers=1))
    stream = _stream.Stream(iterator, type(iterator)._next_data)

    short = [stream.is_next_short]
    for _ in range(LENGTH):
        stream.take()
        short.append(stream.is_next_short)

    assert short == [False] * (LENGTH - 1) + [True, False]
