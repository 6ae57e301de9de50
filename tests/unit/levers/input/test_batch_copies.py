from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BatchEncoding

from slowstep.frameworks.torch.inside.levers._input.batch_copies import changes, copied, handed_out, tensors
from slowstep.record.timing.batches import samples_in

Pair = namedtuple("Pair", ["image", "label"])  # noqa: PYI024 - what collate functions make


@dataclass
class Boxes:
    boxes: torch.Tensor
    name: str


class Slow:
    """An object that cannot be copied."""

    def __init__(self) -> None:
        self.tensor = torch.zeros(2)

    def __copy__(self) -> Any:
        raise TypeError("there is one of these only")


def batches() -> list[Any]:
    one = torch.arange(6.0).reshape(3, 2)
    return [
        one,
        [one, one + 1],
        (one, "text", 3),
        Pair(one, torch.tensor([1, 2, 3])),
        {"image": one, "meta": {"size": [one, None]}},
        OrderedDict(image=one),
        BatchEncoding({"input_ids": one, "labels": one}),
        Boxes(boxes=one, name="a"),
        [np.arange(4), one],
        torch.utils.data.default_collate([{"a": 1.5, "b": "x"}] * 3),
    ]


@pytest.mark.parametrize("batch", batches(), ids=lambda batch: type(batch).__name__)
@pytest.mark.parametrize("make", [copied, handed_out])
def test_a_copy_is_of_the_same_kind_and_holds_the_same(make: Any, batch: Any) -> None:
    made = make(batch)

    assert type(made) is type(batch)
    assert samples_in(made) == samples_in(batch)
    assert [tensor.tolist() for tensor in tensors(made)] == [tensor.tolist() for tensor in tensors(batch)]
    assert len(tensors(batch)) > 0


@pytest.mark.parametrize("batch", batches(), ids=lambda batch: type(batch).__name__)
def test_what_the_script_does_to_a_copy_happens_to_no_other(batch: Any) -> None:
    kept = copied(batch)
    before = [tensor.clone() for tensor in tensors(kept)]

    for tensor in tensors(copied(kept)):
        tensor.add_(1)

    assert all(torch.equal(tensor, known) for tensor, known in zip(tensors(kept), before, strict=True))


def test_a_batch_handed_out_may_be_taken_apart() -> None:
    kept = {"image": torch.zeros(2), "meta": [1, 2]}

    given = handed_out(kept)
    given.pop("image").requires_grad_()
    given["meta"].clear()

    assert list(kept) == ["image", "meta"]
    assert kept["meta"] == [1, 2]
    assert not kept["image"].requires_grad


def test_a_change_in_place_of_a_tensor_handed_out_is_counted_in_the_one_that_was_kept() -> None:
    kept = [torch.zeros(2), torch.zeros(2)]
    before = [changes(tensor) for tensor in kept]

    handed_out(kept)[1].div_(255)

    assert [changes(tensor) - count for tensor, count in zip(kept, before, strict=True)] == [0, 1]


def test_arrays_of_numpy_are_handed_out_as_copies() -> None:
    kept = (np.zeros(3),)

    handed_out(kept)[0][:] = 1

    assert kept[0].tolist() == [0, 0, 0]


def test_a_copy_of_shared_memory_is_in_ordinary_memory() -> None:
    assert not copied([torch.zeros(4).share_memory_()])[0].is_shared()


def test_a_tensor_that_counts_no_changes_says_so() -> None:
    with torch.inference_mode():
        assert changes(torch.zeros(2)) == -1


def test_a_small_part_of_a_large_tensor_is_copied_alone() -> None:
    large = torch.zeros(1000, 1000)

    assert copied(large[:2]).untyped_storage().nbytes() == 2 * 1000 * 4


def test_an_object_that_cannot_be_copied_is_an_error() -> None:
    with pytest.raises(TypeError, match="one of these only"):
        copied([Slow()])
