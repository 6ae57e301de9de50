"""Levers that change what the page cache holds. Whether it did is asked of the kernel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset

from few import few
from made_trainings import AS_IS, Walked, plan_of, walk
from slowstep.frameworks.torch.inside.levers import cold_cache
from slowstep.levers._input.cold_files import drop_file, is_code
from slowstep.levers._input.disk_reads import readers, reads_of

FILES, FILE_BYTES = 400, 1 << 16
BLOCKS = [AS_IS, 1, AS_IS, 1]


class Files(Dataset[torch.Tensor]):
    """A file a sample."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __len__(self) -> int:
        return FILES

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((4,), float((self.folder / str(index)).read_bytes()[0]))


class HeldOpen(Files):
    """All samples in one file that stays open."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.handle = os.open(folder / "all", os.O_RDONLY)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((4,), float(os.pread(self.handle, FILE_BYTES, index * FILE_BYTES)[0]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files on the disk, whose pages may be dropped."""
    made = tmp_path / "data"
    made.mkdir()
    content = bytes(FILE_BYTES)
    for name in [*map(str, range(FILES)), "all"]:
        (made / name).write_bytes(content * (FILES if name == "all" else 1))
    os.sync()
    return made


def in_storage(folder: Path) -> None:
    """Have nothing of them in the page cache. Skips the test where that cannot be seen."""
    for path in folder.iterdir():
        drop_file(str(path))
    mine = ("/proc/self/io",)
    before = reads_of(mine)
    (folder / "0").read_bytes()
    after = reads_of(mine)
    if before is None or after is None or after.since(before).storage_bytes < FILE_BYTES:
        pytest.skip("this file system or kernel does not count reads from storage")


def in_cache(folder: Path) -> None:
    """Have all of them in the page cache."""
    for path in folder.iterdir():
        path.read_bytes()


def walked(folder: Path, lever: str, dataset: Any, **arguments: Any) -> Walked:
    made = DataLoader(dataset, batch_size=1, **arguments)
    came = walk(folder / "r", plan_of([lever], BLOCKS), lambda script: script.train(made))
    assert came.done
    assert came.faults == {}
    return came


@pytest.mark.parametrize("workers", few([0, 2], every=2))
def test_with_a_warm_cache_nothing_comes_from_storage(workers: int, folder: Path, tmp_path: Path) -> None:
    in_storage(folder)

    # In an order in which hardly any sample was read already.
    came = walked(tmp_path, "warm-cache", Files(folder), num_workers=workers, shuffle=True)

    assert came.became() == ["ready", "effect"], came.notes
    effect, facts = came.effect()
    assert effect >= 10
    assert facts["own_storage_bytes"] > FILE_BYTES / 2
    assert facts["read_bytes"] > FILE_BYTES / 2
    assert facts["storage_bytes"] < FILE_BYTES / 100


def test_files_that_are_cached_already_cannot_be_warmed(folder: Path, tmp_path: Path) -> None:
    in_storage(folder)
    in_cache(folder)

    came = walked(tmp_path, "warm-cache", Files(folder), num_workers=1)

    assert came.became() == ["not applicable"]
    assert came.reason() == "nothing is read from storage: what the loader reads is in the page cache already"


def test_with_a_cold_cache_everything_comes_from_storage(folder: Path, tmp_path: Path) -> None:
    in_storage(folder)
    in_cache(folder)

    came = walked(tmp_path, "cold-cache", Files(folder), num_workers=2)

    assert came.became() == ["ready", "effect"], came.notes
    facts = came.effect()[1]
    assert facts["own_storage_bytes"] == 0
    # Workers may be in the middle of a few files when they are put out of the cache.
    assert facts["storage_bytes"] > 0.8 * FILE_BYTES


@pytest.mark.slow
def test_batches_of_workers_that_have_ended_are_not_among_those_whose_bytes_are_known(folder: Path, tmp_path: Path) -> None:
    """Of workers that end with each epoch nobody knows what they read in it: the bytes are those of the batches of the others alone."""
    in_storage(folder)
    in_cache(folder)
    few = Subset(Files(folder), range(20))

    made = DataLoader(few, batch_size=1, num_workers=2)
    came = walk(tmp_path / "r", plan_of(["cold-cache"], [AS_IS, 1] * 6, steps=7), lambda script: script.train(made))

    assert came.became()[-1] == "effect", came.notes
    effect, facts = came.effect()
    assert effect > 20
    # New workers read a little more than their samples as they begin.
    assert facts["storage_bytes"] == pytest.approx(FILE_BYTES, rel=0.2)
    assert facts["read_bytes"] > 0.8 * FILE_BYTES


@pytest.mark.slow
def test_a_file_that_stays_open_stays_cached(folder: Path, tmp_path: Path) -> None:
    in_storage(folder)
    in_cache(folder)
    files = HeldOpen(folder)

    came = walked(tmp_path, "cold-cache", files, num_workers=1)
    os.close(files.handle)

    assert came.became() == ["not applicable"]
    assert came.reason().startswith("its files stay in the page cache")


@pytest.mark.slow
def test_files_that_come_from_storage_already_cannot_be_made_cold(folder: Path, tmp_path: Path) -> None:
    in_storage(folder)

    came = walked(tmp_path, "cold-cache", Files(folder), num_workers=1)

    assert came.reason() == "most of what the loader reads comes from storage as it is"


def test_data_that_comes_from_no_file_cannot_be_made_cold(tmp_path: Path) -> None:
    came = walked(tmp_path, "cold-cache", torch.zeros(400, 4), num_workers=1)

    assert came.became() == ["not applicable"]
    assert came.reason().startswith("next to nothing is read: its data lies in memory")


@pytest.mark.parametrize(
    ("lever", "workers", "reason"),
    [
        ("cold-cache", 0, "the loader has no workers, and the training's own process would keep the watch for opened files for ever"),
        ("warm-cache", 1, "its data set is a stream, which cannot be asked for the same samples again"),
    ],
)
def test_what_has_no_meaning_is_refused(lever: str, workers: int, reason: str, tmp_path: Path) -> None:
    class Stream(IterableDataset[torch.Tensor]):
        def __iter__(self) -> Iterator[torch.Tensor]:
            return iter(torch.zeros(4000, 4))

    came = walked(tmp_path, lever, torch.zeros(4000, 4) if workers == 0 else Stream(), num_workers=workers)

    assert came.reason() == reason


def test_a_system_without_advice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(cold_cache.os, "posix_fadvise")

    came = walked(tmp_path, "cold-cache", torch.zeros(400, 4), num_workers=1)

    assert came.reason() == "this system takes no advice about its page cache"


def test_reads_that_nobody_counts_are_unknown(tmp_path: Path) -> None:
    (tmp_path / "io").write_text("wchar: 3\n")

    assert reads_of([str(tmp_path / "io")]) is None
    assert reads_of([str(tmp_path / "none")]) is None


def test_without_workers_the_training_thread_reads() -> None:
    (path,) = readers(iter(DataLoader([1, 2])))  # type: ignore[arg-type]

    assert path.startswith("/proc/self/task/")
    assert reads_of([path]) is not None


def test_code_is_never_dropped() -> None:
    assert is_code(os.__file__)
    assert is_code("/anywhere/train.py")
    assert not is_code("/data/train/0.jpg")
