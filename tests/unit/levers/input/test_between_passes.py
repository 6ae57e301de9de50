"""What a script changes of a data set between passes is noted, and what making batches changes is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from torch.utils.data import DataLoader, Dataset, Subset

from slowstep.frameworks.torch.inside._loader.between_passes import BetweenPasses


class Numbers(Dataset):
    """Keeps count of what is asked for, and opens its file when it is asked first."""

    def __init__(self) -> None:
        self.epoch, self.scale, self.order = 0, 1.0, [2, 0, 1]
        self.asked, self.file, self.cache = 0, None, {}

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> int:
        self.asked += 1
        self.file = self.file or object()
        self.cache[index] = index
        return index

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


class Slots:
    __slots__ = ("epoch",)


def passes(dataset: Any, *changes: Any, workers: int = 0, ended: bool = True) -> list[list[str] | None]:
    """What was changed as each pass begins: before all but the first the next of the changes is made."""
    between, found = BetweenPasses(), []
    loader = SimpleLoader(dataset, workers)
    for number, change in enumerate((lambda _: None, *changes)):
        change(dataset)
        found.append(between.changed(loader))
        between.begun(loader, number)
        if not workers:
            _ = [dataset[at] for at in range(2)] if isinstance(dataset, Numbers) else None
        if ended:
            between.ended(number)
    return found


class SimpleLoader:
    """As much of a loader as is looked at."""

    def __init__(self, dataset: Any, workers: int) -> None:
        self.dataset, self.num_workers = dataset, workers


def advance(dataset: Any) -> None:
    dataset.set_epoch(dataset.epoch + 1)


def replace(dataset: Any) -> None:
    dataset.order, dataset.scale = [0, 1, 2], 0.5


def nothing(_: Any) -> None:
    pass


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("change", "names"), [(advance, ["epoch"]), (replace, ["order", "scale"]), (nothing, [])], ids=["set_epoch", "attributes", "none"]
)
def test_what_the_script_changes_is_told_and_what_making_batches_does_is_not(workers: int, change: Any, names: list[str]) -> None:
    assert passes(Numbers(), change, change, workers=workers)[:2] == [None, names]


def test_a_set_that_another_wraps_is_looked_at_too() -> None:
    inner = Numbers()

    assert passes(Subset(inner, [0, 1]), lambda _: advance(inner), workers=1) == [None, ["epoch"]]


@pytest.mark.parametrize("dataset", [[1, 2, 3], Slots(), None], ids=["list", "slots", "none"])
def test_of_a_set_without_attributes_nothing_is_known(dataset: Any) -> None:
    assert passes(dataset, nothing, workers=1) == [None, None]


def test_without_workers_a_pass_that_was_left_tells_nothing() -> None:
    assert passes(Numbers(), advance, ended=False) == [None, None]


def test_a_file_that_is_opened_between_passes_is_no_change_as_a_count_is() -> None:
    assert passes(Numbers(), lambda dataset: dataset[0] and None, workers=1)[1] == ["asked"]


def test_a_loader_at_the_place_of_one_that_is_gone_is_new() -> None:
    between, loader = BetweenPasses(), DataLoader(Numbers(), num_workers=1)
    between.begun(loader, 1)
    other = SimpleNamespace(dataset=loader.dataset, num_workers=1)
    between._kept[id(other)] = between._kept.pop(id(loader))

    assert between.changed(other) is None
