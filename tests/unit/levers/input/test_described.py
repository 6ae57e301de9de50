"""What is noted of a loader: above all which function collates."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from torch.utils.data import BatchSampler, SequentialSampler

from slowstep.frameworks.torch.inside._described import describe_iterator


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
