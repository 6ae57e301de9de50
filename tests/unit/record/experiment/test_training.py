"""What is known from inside of the training: which loader feeds it, also where there are several, or a new one for each epoch."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader
from transformers import BatchEncoding

from recorded import make_folder
from slowstep.frameworks.torch.inside._framework import FRAMEWORK
from slowstep.record.experiment.training import Training
from slowstep.record.recorder import Recorder
from slowstep.record.timing.batches import samples_in


class Optimizer:
    """Stands for one: only its identity matters."""


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Training]:
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    yield Training(recorder)
    recorder.stop("test")


def begin(training: Training, loader: Any) -> Any:
    iterator = iter(loader)
    training.started(loader, iterator, FRAMEWORK)
    return iterator


def step(training: Training, iterator: Any, optimizer: Any) -> None:
    training.requested(iterator)
    training.updated(optimizer)


def test_before_an_update_nothing_is_known(training: Training) -> None:
    iterator = begin(training, loader := DataLoader(range(4)))  # type: ignore[arg-type]
    training.requested(iterator)

    assert (training.loader, training.iterator, training.starts) == (None, None, 0)
    assert loader is not None
    assert not training.boundary_is_request


def test_the_loader_read_last_before_most_updates_feeds_the_training(training: Training) -> None:
    optimizer, training_loader, other = Optimizer(), DataLoader(range(9)), DataLoader(range(9))  # type: ignore[arg-type]
    mine, its = begin(training, training_loader), begin(training, other)
    for _ in range(3):
        step(training, mine, optimizer)
    training.requested(its)
    training.requested(mine)

    assert training.loader is training_loader
    assert training.iterator is mine
    assert training.is_input(mine)
    assert not training.is_input(its)


def test_a_loader_that_the_script_does_not_hold_is_known_while_it_is_read(training: Training) -> None:
    optimizer, iterator = Optimizer(), begin(training, DataLoader(range(9)))  # type: ignore[arg-type]
    step(training, iterator, optimizer)

    assert training.loader is not None
    assert training.is_input(iterator)


def test_of_loaders_made_anew_each_epoch_the_living_one_counts(training: Training) -> None:
    optimizer = Optimizer()
    for _ in range(3):
        loader = DataLoader(range(9))  # type: ignore[arg-type]
        iterator = begin(training, loader)
        for _ in range(3):
            step(training, iterator, optimizer)

    assert training.loader is loader
    assert training.is_input(iterator)


def test_persistent_workers_die_with_their_loader(training: Training) -> None:
    loader = DataLoader(range(9), num_workers=1, persistent_workers=True)  # type: ignore[arg-type]
    (worker,) = begin(training, loader)._workers

    del loader
    worker.join(10)

    assert not worker.is_alive()


def test_each_epoch_is_a_start(training: Training) -> None:
    optimizer, loader = Optimizer(), DataLoader(range(9))  # type: ignore[arg-type]
    for _ in range(3):
        step(training, begin(training, loader), optimizer)

    assert training.starts == 3


def test_the_training_thread_is_the_one_that_updates(training: Training) -> None:
    optimizer, iterator = Optimizer(), begin(training, loader := DataLoader(range(9)))  # type: ignore[arg-type]
    thread = threading.Thread(target=step, args=(training, iterator, optimizer))
    thread.start()
    thread.join()

    assert training.thread == thread.ident
    assert not training.requested(iterator)
    assert training.loader is loader


def zipped(training: Training, optimizer: Any, *waits: tuple[Any, int], steps: int = 5) -> None:
    """Steps that ask one iterator after the other, and wait for each so long."""
    for _ in range(steps):
        for iterator, waited_ns in waits:
            training.requested(iterator)
            training.received(iterator, waited_ns)
        training.updated(optimizer)


@pytest.mark.parametrize("first_ns", [1000, 10])
def test_of_loaders_that_are_read_together_it_is_the_one_that_is_waited_for(training: Training, first_ns: int) -> None:
    optimizer, first, second = Optimizer(), DataLoader(range(9)), DataLoader(range(9))  # type: ignore[arg-type]
    mine, its = begin(training, first), begin(training, second)
    zipped(training, optimizer, (mine, first_ns), (its, 100))

    assert training.loader is (first if first_ns == 1000 else second)
    assert training.iterator is (mine if first_ns == 1000 else its)
    assert len(training.feeders) == 1

    training.hold()
    # A lever takes away the wait for it.
    zipped(training, optimizer, (mine, 1010 - first_ns), (its, 100), steps=50)

    assert training.loader is (first if first_ns == 1000 else second)
    assert [feeder.loader for feeder in training.feeders] == ([first, second] if first_ns == 1000 else [second, first])


@pytest.mark.parametrize(("between", "feeds"), [(3, True), (49, False)], ids=["one in four", "one in fifty"])
def test_of_loaders_that_take_turns_it_is_the_one_that_is_waited_for_most_in_all(training: Training, between: int, feeds: bool) -> None:
    """One that takes a turn in fifty is met by hardly a block of an experiment."""
    optimizer, often, seldom = Optimizer(), DataLoader(range(99)), DataLoader(range(99))  # type: ignore[arg-type]
    mine, its = begin(training, often), begin(training, seldom)
    for _ in range(6):
        zipped(training, optimizer, (mine, 10), steps=between)
        zipped(training, optimizer, (its, 100), steps=1)

    training.hold()

    assert training.loader is (seldom if feeds else often)
    assert [feeder.loader for feeder in training.feeders] == ([seldom, often] if feeds else [often])


def test_a_validation_is_not_read_together_however_long_it_is_waited_for(training: Training) -> None:
    optimizer, loader, validation = Optimizer(), DataLoader(range(9)), DataLoader(range(9))  # type: ignore[arg-type]
    for _ in range(5):
        zipped(training, optimizer, (begin(training, loader), 10), steps=1)
        its = begin(training, validation)
        for _ in range(4):
            training.requested(its)
            training.received(its, 1000)
    zipped(training, optimizer, (begin(training, loader), 10), steps=1)

    training.hold()

    assert training.loader is loader
    assert len(training.feeders) == 1


def test_loaders_that_were_held_are_followed_from_epoch_to_epoch(training: Training) -> None:
    optimizer, data, other = Optimizer(), range(9), range(8)

    def epoch() -> tuple[Any, Any]:
        loaders = DataLoader(data), DataLoader(other)  # type: ignore[arg-type]
        for loader in loaders:
            # Both are built in one line.
            training.built(loader, 7)
        mine, its = (begin(training, loader) for loader in loaders)
        zipped(training, optimizer, (mine, 1000), (its, 10))
        return loaders

    loaders = epoch()
    training.hold()
    assert training.place is None
    del loaders
    assert training.is_lost
    loaders = epoch()

    assert [feeder.loader for feeder in training.feeders] == list(loaders)
    assert not training.is_lost


@pytest.mark.slow
def test_a_data_set_that_the_script_lets_go_is_not_kept(training: Training) -> None:
    class Data(list[int]):
        """Unlike a list, of this there are weak references."""

    optimizer, data = Optimizer(), Data(range(9))
    loaders = [DataLoader(data), DataLoader(range(8))]  # type: ignore[arg-type]
    iterators = [begin(training, loader) for loader in loaders]
    zipped(training, optimizer, *((iterator, 10) for iterator in iterators))
    training.hold()
    gone = weakref.ref(data)
    del loaders, iterators, data
    gc.collect()

    assert training.is_lost
    assert gone() is None


def test_where_a_loader_was_changed_as_it_was_built_that_one_feeds_the_training(training: Training) -> None:
    optimizer, changed, other = Optimizer(), DataLoader(range(9)), DataLoader(range(9))  # type: ignore[arg-type]
    training.recorder.loader_place = 3
    training.built(changed, 3)
    training.built(other, 4)
    zipped(training, optimizer, (begin(training, changed), 10), (begin(training, other), 1000), steps=1)

    assert training.loader is changed


def test_a_tokenizers_batch_says_how_many_samples_it_holds() -> None:
    assert samples_in(BatchEncoding({"input_ids": [[1, 2]] * 6}, tensor_type="pt")) == 6
