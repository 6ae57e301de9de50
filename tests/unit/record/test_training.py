"""What is known from inside of the training: which loader feeds it, also where there are several, or a new one for each epoch."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader
from transformers import BatchEncoding

from recorded import make_folder
from slowstep.record.batches import samples_in
from slowstep.record.recorder import Recorder
from slowstep.record.training import Training


class Optimizer:
    """Stands for one: only its identity matters."""


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Training]:
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    yield Training(recorder)
    recorder.stop("test")


def begin(training: Training, loader: Any) -> Any:
    iterator = iter(loader)
    training.started(loader, iterator)
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


def test_a_tokenizers_batch_says_how_many_samples_it_holds() -> None:
    assert samples_in(BatchEncoding({"input_ids": [[1, 2]] * 6}, tensor_type="pt")) == 6
