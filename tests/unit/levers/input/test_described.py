"""What is noted of a loader: above all which function collates."""

from __future__ import annotations

import functools
import json
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, ConcatDataset, Dataset, SequentialSampler, Subset

from slowstep.frameworks.torch.inside._loader.described import describe_iterator, even_batches


def pad(samples: list[Any], length: int = 8) -> list[Any]:
    return samples[:length]


class RemoveColumnsCollator:
    """As transformers' trainer wraps whatever collator it is given."""

    def __init__(self, data_collator: Any) -> None:
        self.data_collator = data_collator

    def __call__(self, samples: list[Any]) -> Any:
        return self.data_collator(samples)


class Collator:
    def __call__(self, samples: list[Any]) -> list[Any]:
        return samples


@pytest.mark.parametrize(
    ("collate", "name"),
    [
        (pad, "pad"),
        (functools.partial(pad, length=4), "pad"),
        (RemoveColumnsCollator(pad), "pad"),
        (RemoveColumnsCollator(functools.partial(functools.partial(pad), length=4)), "pad"),
        (RemoveColumnsCollator(Collator()), "Collator.__call__"),
        (RemoveColumnsCollator(None), "RemoveColumnsCollator.__call__"),
        (Collator(), "Collator.__call__"),
    ],
)
def test_the_collate_function_is_the_one_that_does_the_work(collate: Any, name: str) -> None:
    assert describe_iterator({"_collate_fn": collate}, None)["collate"] == f"{__name__}.{name}"


@pytest.mark.parametrize(("state", "every"), [({"_snapshot_interval": 3}, 3), ({"_snapshot_interval": None}, None), ({}, None)], ids=str)
def test_how_often_workers_send_their_state_is_noted_where_they_do(state: dict[str, Any], every: int | None) -> None:
    assert describe_iterator(state, None)["snapshot_every"] == every


def test_the_place_of_a_collator_is_that_of_its_call() -> None:
    note = describe_iterator({"_collate_fn": RemoveColumnsCollator(Collator())}, None)

    assert note["collate_file"] == __file__
    assert note["collate_line"] == Collator.__call__.__code__.co_firstlineno


def test_a_collator_that_hands_over_to_itself_ends_somewhere() -> None:
    collate = RemoveColumnsCollator(None)
    collate.data_collator = collate

    assert describe_iterator({"_collate_fn": collate}, None)["collate"] == f"{__name__}.RemoveColumnsCollator.__call__"


class Chosen(BatchSampler):
    """A user's own, which may take any time to count its batches."""

    def __len__(self) -> int:
        raise AssertionError


class Endless:
    """A user's own order of samples, without an end."""


@pytest.mark.parametrize(
    ("sampler", "batches"),
    [
        (BatchSampler(SequentialSampler(range(10)), 4, drop_last=False), 3),
        (BatchSampler(SequentialSampler(range(10)), 4, drop_last=True), 2),
        (BatchSampler(Endless(), 4, drop_last=False), None),
        (Chosen(SequentialSampler(range(10)), 4, drop_last=False), None),
        (None, None),
    ],
)
def test_batches_are_counted_by_torchs_own_sampler_only(sampler: Any, batches: int | None) -> None:
    assert describe_iterator({"_index_sampler": sampler}, None)["batches"] == batches


class Pictures(Dataset[int]):
    """A user's data set."""

    def __getitem__(self, index: int) -> int:
        return index


class Crops(Pictures):
    """One that adds nothing of its own but a method."""

    def resample(self) -> None:
        """Does nothing."""


class SizedCrops(Crops):
    """One that knows its length."""

    def __len__(self) -> int:
        return 1


class Reports:
    """What data sets, samplers and trainers of a project have in common."""

    def log_metrics(self) -> None:
        """Does nothing."""


class ReportingCrops(Reports, Crops):
    """A data set that logs too."""

    def rotate(self) -> None:
        """Does nothing."""


class Answers:
    """Whatever it is asked for, it has."""

    def __getattr__(self, name: str) -> Any:
        return self


class Patched(Pictures):
    """One with an attribute that is no function of it."""

    transform: Any = Answers()

    def resample(self) -> None:
        """Does nothing."""


class Drawn:
    """A user's sampler."""

    sampler: Any = None

    def __iter__(self) -> Any:
        return iter(())


class Lazy:
    """One that loads whatever it is asked for."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def _own(places: list[list[str]]) -> list[str]:
    return [name for file, name in places if file == __file__]


@pytest.mark.parametrize(
    ("data_set", "names"),
    [
        (Crops(), ["Crops", "Pictures"]),
        (Subset(Crops(), [0]), ["Crops", "Pictures"]),
        (ConcatDataset([SizedCrops(), SizedCrops()]), ["SizedCrops", "Crops", "Pictures"]),
        (ReportingCrops(), ["ReportingCrops", "Crops", "Pictures"]),
        (Patched(), ["Patched", "Pictures"]),
        (Lazy(), ["Lazy"]),
        ([1, 2], []),
        (None, []),
    ],
    ids=[
        "with its base",
        "wrapped",
        "of several",
        "with what it logs with",
        "with an attribute that answers every name",
        "that loads what it is asked for",
        "a list",
        "none",
    ],
)
def test_the_classes_of_a_data_set_are_told_with_those_of_what_is_inside_it(data_set: Any, names: list[str]) -> None:
    assert _own(describe_iterator({"_dataset": data_set}, None)["data_set_classes"]) == names


def test_the_classes_of_a_sampler_are_told_inside_torchs_batch_sampler() -> None:
    sampler = BatchSampler(Drawn(), 4, drop_last=False)

    assert _own(describe_iterator({"_index_sampler": sampler}, None)["sampler_classes"]) == ["Drawn"]


def test_what_wraps_itself_is_looked_at_a_few_times_only() -> None:
    sampler = Drawn()
    sampler.sampler = sampler

    assert _own(describe_iterator({"_index_sampler": sampler}, None)["sampler_classes"]) == ["Drawn"]


class ReportingDrawn(Reports, Drawn):
    """A sampler that logs too."""

    def reweigh(self) -> None:
        """Does nothing."""


def test_what_a_sampler_logs_with_is_no_sampler() -> None:
    assert _own(describe_iterator({"_index_sampler": ReportingDrawn()}, None)["sampler_classes"]) == ["ReportingDrawn", "Drawn"]


class Refuses:
    """A collator, sampler, loader or data set that may not be asked for more than it is called for."""

    def __call__(self, samples: list[Any]) -> list[Any]:
        return samples

    @property
    def batch_size(self) -> int:
        raise AssertionError

    batch_sampler = num_workers = multiprocessing_context = __wrapped__ = data_collator = dataset = batch_size

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def test_nothing_that_the_script_would_have_to_compute_is_asked_for() -> None:
    odd = Refuses()
    note = describe_iterator({"_collate_fn": odd, "_index_sampler": odd, "_dataset": odd}, odd)

    assert (note["collate"], note["is_default_collate"]) == (f"{__name__}.Refuses.__call__", False)
    assert (note["batch_size"], note["batches"], note["context"]) == (None, None, None)
    assert even_batches({"_collate_fn": odd, "_index_sampler": odd}) == (-1, -1, -1)


def test_what_answers_every_name_is_described_by_its_class() -> None:
    note = describe_iterator({"_collate_fn": Answers(), "_index_sampler": Answers(), "_dataset": Answers()}, Answers())

    assert (note["collate"], note["collate_file"], note["is_default_collate"]) == (f"{__name__}.Answers", None, False)
    assert (note["batch_size"], note["context"]) == (None, None)
    json.dumps(note)


class Augmented(Dataset[int]):
    def __init__(self, **held: Any) -> None:
        vars(self).update(held)

    def __len__(self) -> int:
        return 3


@pytest.mark.parametrize(
    ("dataset", "name"),
    [
        (Augmented(rng=random.Random(1)), "rng"),
        (Augmented(draw=np.random.default_rng(1)), "draw"),
        (Augmented(generator=torch.Generator()), "generator"),
        (Subset(Augmented(rng=np.random.RandomState(1)), [0]), "rng"),
        (Augmented(transform=Augmented(rng=random.Random(1))), "rng"),
        (Augmented(epoch=1, files=["a"], data=np.zeros(3)), None),
    ],
)
def test_a_generator_that_a_data_set_holds_is_named(dataset: Any, name: str | None) -> None:
    assert describe_iterator({"_dataset": dataset, "_dataset_kind": 0}, None)["generator"] == name
    assert describe_iterator({"_dataset": dataset, "_dataset_kind": 1}, None)["generator"] is None
