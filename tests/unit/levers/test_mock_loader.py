from __future__ import annotations

import multiprocessing
import os
import threading
from itertools import pairwise
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
import torch
from torch.utils.data import Dataset, Subset

from few import few
from made_trainings import AS_IS, Samples, Script, Walked, loader, plan_of, walk
from slowstep.frameworks.torch.inside.levers._input import ring

MOCK = [AS_IS, 1, AS_IS, 1]


class Fields(Dataset[dict[str, Any]]):
    """Samples of twenty tensors and a text."""

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"inputs": torch.full((4,), float(index)), "name": str(index)} | {str(number): torch.zeros(1) for number in range(20)}


def mocked(folder: Path, train: Any, lever: str = "mock-loader", blocks: list[int] = MOCK) -> Walked:
    walked = walk(folder / "r", plan_of([lever], blocks), train)
    assert walked.done
    assert walked.faults == {}
    return walked


@pytest.mark.parametrize("workers", [0, 2])
def test_the_training_gets_sixteen_real_batches_in_turn(workers: int, tmp_path: Path) -> None:
    walked = mocked(tmp_path, lambda script: script.train(loader(num_workers=workers), keep=True))

    seen = [tuple(batch[:, 0].tolist()) for batch in walked.counted(1)]
    # How many more are given out while a block settles depends on how busy the machine is.
    for block in (seen[:5], seen[5:]):
        assert {later[0] - earlier[0] for earlier, later in pairwise(block)} <= {4.0, -60.0}
    assert all(batch == tuple(range(int(batch[0]), int(batch[0]) + 4)) for batch in seen)
    effect, facts = walked.effect()
    assert effect >= len(seen)
    assert (facts["batches"], facts["copies"]) == (16, False)


@pytest.mark.slow
@pytest.mark.parametrize(("lever", "are_kept"), [("mock-loader=across-epochs", True), ("mock-loader", False)])
def test_across_epochs_the_loaders_own_workers_rest_and_none_are_started(lever: str, are_kept: bool, tmp_path: Path) -> None:
    lengths: list[int] = []

    def train(script: Script) -> None:
        data = loader(Subset(Samples(), range(24)), num_workers=1)
        while True:
            for count, batch in enumerate(data, start=1):  # noqa: B007 - of a whole epoch
                script._walked.batches.append(frozenset(child.pid for child in multiprocessing.active_children()))
                if not script.step(batch):
                    return
            lengths.append(count)

    walked = walk(tmp_path / "r", plan_of([lever], MOCK, steps=12), train)

    assert walked.done
    assert walked.faults == {}
    workers = walked.counted(1)
    # Twelve steps are two epochs.
    assert ([len(set(block)) for block in (workers[:12], workers[12:])] == [1, 1]) is are_kept
    assert set(lengths) == {6}


@pytest.mark.slow
def test_a_constant_batch_is_always_the_same(tmp_path: Path) -> None:
    walked = mocked(tmp_path, lambda script: script.train(loader(num_workers=1), keep=True), "constant-batch")

    assert len({tuple(batch[:, 0].tolist()) for batch in walked.counted(1)}) == 1
    assert walked.effect()[1]["batches"] == 1


def test_batches_that_the_script_changes_in_place_are_given_out_as_they_were(tmp_path: Path) -> None:
    def train(script: Script) -> None:
        for batch in loader(num_workers=1):
            script._walked.batches.append(batch.clone())
            if not script.step(batch.add_(0.5)):
                return

    walked = mocked(tmp_path, train)

    assert all(float(batch[0, 0]).is_integer() for batch in walked.given(1))
    assert walked.effect()[1]["copies"] is True


@pytest.mark.parametrize(("lever", "size"), few([("mock-loader", 16), ("constant-batch", 1)], every=2))
def test_a_script_that_begins_to_change_batches_is_noticed(lever: str, size: int, tmp_path: Path) -> None:
    spoiled: list[bool] = []

    def train(script: Script) -> None:
        for batch in loader(num_workers=1):
            spoiled.append(not float(batch[0, 0]).is_integer())
            # Only from the middle of the block on.
            if not script.step(batch.add_(0.5) if len(spoiled) > 60 else batch):
                return

    walked = walk(tmp_path / "r", plan_of([lever], [1], steps=60), train)

    assert walked.done
    facts = walked.effect()[1]
    assert (facts["copies"], facts["batches"]) == (True, size)
    assert not any(spoiled)


@pytest.mark.slow
def test_a_script_may_take_a_batch_apart(tmp_path: Path) -> None:
    def train(script: Script) -> None:
        for batch in loader(Fields(), num_workers=1):
            assert batch.pop("name")
            if not script.step(batch.pop("inputs")):
                return

    assert mocked(tmp_path, train).effect()[0] > 0


@pytest.mark.slow
def test_the_ring_holds_no_files_open(tmp_path: Path) -> None:
    open_files: dict[int, int] = {}

    def train(script: Script) -> None:
        for count, batch in enumerate(loader(Fields(), num_workers=1)):
            open_files[count] = len(os.listdir("/proc/self/fd"))
            if not script.step(batch["inputs"]):
                return

    walked = mocked(tmp_path, train)

    # Of 16 batches of 21 tensors each tensor would hold one.
    assert max(open_files.values()) - open_files[10] < 4 * 21
    assert walked.effect()[1]["batches"] == 16


def test_batches_that_would_fill_the_memory_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring, "memory_free_bytes", lambda: 18 * 64 * 3)

    walked = mocked(tmp_path, lambda script: script.train(loader()), blocks=[0, 1, 0])

    assert walked.became() == ["not applicable"]
    assert "18 batches take" in walked.reason()


def test_batches_that_cannot_be_copied_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise TypeError("there is one of these only")

    monkeypatch.setattr(ring, "copied", refuse)

    walked = mocked(tmp_path, lambda script: script.train(loader()), blocks=[0, 1, 0])

    assert walked.became() == ["not applicable"]
    assert walked.reason() == "its batches cannot be copied: TypeError: there is one of these only"


def test_a_training_without_a_loader_has_none_to_mock(tmp_path: Path) -> None:
    def train(script: Script) -> None:
        while script.step(torch.zeros(4, 4)):
            pass

    walked = mocked(tmp_path, train, blocks=[0, 1, 0])

    assert walked.became() == ["not applicable"]
    assert walked.reason() == "no torch DataLoader feeds the training, and other input can only be changed in the script"


def test_a_loader_that_another_thread_reads_is_left_alone(tmp_path: Path) -> None:
    def train(script: Script) -> None:
        batches: Queue[Any] = Queue(2)
        ended = threading.Event()

        def read() -> None:
            for batch in loader(num_workers=1):
                while not ended.is_set():
                    try:
                        batches.put(batch, timeout=0.05)
                        break
                    except Exception:
                        continue
                if ended.is_set():
                    return

        reader = threading.Thread(target=read)
        reader.start()
        while script.step(batches.get()):
            pass
        ended.set()
        reader.join()

    walked = mocked(tmp_path, train, blocks=[0, 1, 0])

    assert walked.became() == ["not applicable"]
    assert walked.reason() == "another thread than the training's reads the loader"


@pytest.mark.slow
def test_what_gathered_while_the_ring_was_on_is_discarded(tmp_path: Path) -> None:
    """One worker takes 40 ms for a batch; a block of four steps that began with eight batches would be free."""
    made = loader(Samples(sample_s=0.01), num_workers=1, prefetch_factor=8)

    walked = walk(tmp_path / "r", plan_of(["mock-loader"], [0, 1] * 4, steps=4), lambda script: script.train(made), limit=50_000)

    assert walked.done
    assert walked.step_ns(AS_IS) > 36e6
    assert walked.step_ns(1) < walked.step_ns(AS_IS) / 2
