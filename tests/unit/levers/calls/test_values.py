"""Results that are returned again: which are of use, and for which arguments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image

from slowstep.levers._calls.values import GRAPH, MOST_FORMS, NOTHING, ONCE, KeptResult, mark_of, unusable


class Pair(NamedTuple):
    loss: torch.Tensor
    other: int


class Output:
    def __init__(self, loss: torch.Tensor) -> None:
        self.loss = loss


def with_graph() -> torch.Tensor:
    return torch.ones(2, requires_grad=True).sum()


@contextlib.contextmanager
def context() -> Iterator[None]:
    yield


@pytest.mark.parametrize(
    "value",
    [None, 3, 2.5, "text", b"raw", [1, 2], {"a": np.zeros(3)}, torch.zeros(2), torch.nn.Parameter(torch.zeros(2)), Image.new("L", (2, 2))],
    ids=lambda value: type(value).__name__,
)
def test_plain_results_can_be_returned_again(value: Any) -> None:
    assert unusable(value) is None


@pytest.mark.parametrize(
    "make",
    [with_graph, lambda: [1, with_graph()], lambda: {"loss": with_graph()}, lambda: Pair(with_graph(), 0), lambda: Output(with_graph())],
)
def test_what_carries_gradients_cannot(make: Any) -> None:
    assert unusable(make()) == GRAPH


@pytest.mark.parametrize("make", [lambda: iter([1]), lambda: (x for x in "ab"), context, lambda: [zip("a", "b", strict=True)]])
def test_what_can_be_used_only_once_cannot(make: Any) -> None:
    assert unusable(make()) == ONCE


def test_an_open_file_cannot(tmp_path: Path) -> None:
    with (tmp_path / "f").open("w") as file:
        assert unusable(file) == ONCE


def test_a_large_container_is_not_walked_to_its_end() -> None:
    class Counting(list[Any]):
        asked = 0

        def __iter__(self) -> Iterator[Any]:
            for item in super().__iter__():
                self.asked += 1
                yield item

    many = Counting(range(100_000))

    assert unusable(many) is None
    assert many.asked < 1000


@pytest.mark.parametrize(
    ("value", "change"),
    [
        ([1], lambda v: v.append(2)),
        ({}, lambda v: v.update(a=1)),
        (torch.zeros(4), lambda v: v.add_(1)),
        ({"x": torch.zeros(4)}, lambda v: v["x"].mul_(0)),
        (np.zeros((100, 100)), lambda v: v.__iadd__(1)),
        (np.zeros((64, 64, 3), np.uint8)[:, ::-1], lambda v: v.fill(1)),
        (np.array(0.0), lambda v: v.fill(1)),
        ([1, 2], lambda v: v.__setitem__(0, 5)),
    ],
    ids=["list", "dict", "tensor", "tensor in a dict", "array", "view of an array", "array of no dimension", "item"],
)
def test_a_change_in_place_is_seen(value: Any, change: Any) -> None:
    before = mark_of(value)
    assert mark_of(value) == before

    change(value)

    assert mark_of(value) != before


def test_a_tensor_made_for_inference_has_no_version_and_is_no_error() -> None:
    with torch.inference_mode():
        value = torch.zeros(3)

    assert mark_of(value) == mark_of(value)


def test_nothing_is_kept_before_the_first_result() -> None:
    assert KeptResult().get((1,), {}) is NOTHING


def test_a_result_without_a_size_is_returned_for_any_arguments() -> None:
    kept = KeptResult()
    kept.keep((torch.zeros(3),), {}, 1.5)

    assert kept.get((torch.zeros(99),), {"more": 1}) == 1.5


def test_a_result_with_a_size_is_returned_for_arguments_of_the_same_shape_only() -> None:
    kept = KeptResult()
    full, rest = torch.zeros(16, 2), torch.zeros(10, 2)
    kept.keep((full,), {"y": [full] * 16}, torch.ones(16))

    assert kept.get((torch.ones(16, 2),), {"y": [full] * 16}).shape == (16,)
    assert kept.get((rest,), {"y": [full] * 16}) is NOTHING
    assert kept.get((full,), {"y": [full] * 10}) is NOTHING
    kept.keep((rest,), {"y": [rest] * 10}, torch.ones(10))
    assert kept.get((rest,), {"y": [rest] * 10}).shape == (10,)


def test_pictures_are_told_apart_by_their_size() -> None:
    kept = KeptResult()
    kept.keep((Image.new("L", (2, 3)),), {}, np.zeros((3, 2)))

    assert kept.get((Image.new("L", (2, 3)),), {}) is not NOTHING
    assert kept.get((Image.new("L", (4, 3)),), {}) is NOTHING


def test_results_for_no_more_than_so_many_shapes_are_kept() -> None:
    kept = KeptResult()
    for size in range(MOST_FORMS + 10):
        kept.keep((np.zeros(size),), {}, np.zeros(size))

    assert kept.get((np.zeros(0),), {}) is NOTHING
    assert kept.get((np.zeros(MOST_FORMS + 9),), {}) is not NOTHING


def test_a_result_that_is_changed_by_whoever_got_it_is_noticed() -> None:
    kept = KeptResult()
    value = np.zeros(100)
    kept.keep((), {}, value)
    assert not kept.is_changed

    value += 1

    assert kept.is_changed


def test_an_object_that_the_function_gives_out_again_and_again_may_change() -> None:
    kept = KeptResult()
    history: list[int] = []
    for number in range(3):
        kept.keep((), {}, history)
        history.append(number)

    assert not kept.is_changed
