from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from slowstep.frameworks.torch.inside._autograd.graph_shapes import graph_shapes, most_uses
from slowstep.frameworks.torch.inside._autograd.graph_size import MOST_NODES, nodes_below
from slowstep.frameworks.torch.inside._loader import padded
from slowstep.frameworks.torch.inside._loader.padded import look_for_padding

LENGTHS = [12, 3, 7, 20, 5, 9, 11, 2]


def _sequences(length: int = 20, fill: int = 0, *, left: bool = False) -> list[list[int]]:
    draw = random.Random(0)
    rows = [[draw.randrange(5, 90) for _ in range(each)] for each in LENGTHS]
    return [[fill] * (length - len(row)) + row if left else row + [fill] * (length - len(row)) for row in rows]


def _mask(*, left: bool = False) -> list[list[int]]:
    return [[int(each != 0) for each in row] for row in _sequences(left=left)]


@pytest.mark.parametrize(
    ("batch", "by_mask"),
    [
        ((torch.tensor(_sequences()), torch.zeros(8)), False),
        ([np.array(_sequences(), dtype=np.int32)], False),
        (torch.tensor(_sequences(left=True)), False),
        ({"ids": torch.tensor(_sequences()), "mask": torch.tensor(_mask())}, True),
        ({"ids": torch.tensor(_sequences()), "mask": torch.tensor(_mask()).bool().logical_not()}, True),
        ({"ids": torch.tensor(_sequences(left=True)), "mask": torch.tensor(_mask(left=True))}, True),
        (torch.tensor(_sequences()).t().contiguous(), False),
    ],
    ids=["tensor", "array", "left", "mask", "inverted mask", "mask on the left", "time first"],
)
def test_the_lengths_of_padded_sequences_are_found(batch: Any, by_mask: bool) -> None:
    found = look_for_padding(batch)[0]

    assert found["lengths"] == LENGTHS
    assert (found["rows"], found["length"], found["value"], found["inside"], found["mask"]) == (8, 20, 0, 0, by_mask)


def test_a_value_that_fills_and_stands_inside_too_is_counted() -> None:
    rows = _sequences()
    rows[0][2] = rows[3][4] = 0

    assert look_for_padding(torch.tensor(rows))[0]["inside"] == 2


def test_a_token_of_the_end_that_also_fills_is_known_by_the_mask() -> None:
    rows = [[17 if each == 0 else each for each in row] for row in _sequences()]
    rows[0][2] = 17

    assert look_for_padding((torch.tensor(rows), torch.tensor(_mask())))[0]["lengths"] == LENGTHS


@pytest.mark.parametrize(
    "batch",
    [
        torch.randint(5, 90, (8, 20)),
        torch.zeros(8, 20, dtype=torch.int64),
        (torch.randint(5, 90, (8, 20)), torch.ones(8, 20, dtype=torch.int64)),
    ],
    ids=["blocks of a text", "nothing but one value", "a mask that hides nothing"],
)
def test_rows_without_runs_of_several_lengths_have_no_lengths(batch: Any) -> None:
    assert all("lengths" not in each for each in look_for_padding(batch))


@pytest.mark.parametrize(
    "batch",
    [
        torch.rand(8, 20),
        torch.zeros(8, 3, 32, 32, dtype=torch.uint8),
        torch.arange(64),
        torch.zeros(2, 2, dtype=torch.int64),
        ["text"],
        None,
    ],
    ids=["vectors", "images", "labels", "pairs", "texts", "nothing"],
)
def test_what_holds_no_sequences_of_whole_numbers_is_not_looked_at(batch: Any) -> None:
    assert look_for_padding(batch) == []


def test_nothing_of_the_scripts_own_classes_is_asked() -> None:
    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *_: Any, **__: Any) -> Any:
            raise AssertionError

    class Batch:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

    own = torch.tensor(_sequences()).as_subclass(Own)

    assert look_for_padding([own, Batch(), torch.tensor(_sequences())])[0]["lengths"] == LENGTHS


def test_of_a_large_batch_some_rows_tell() -> None:
    found = look_for_padding(torch.tensor((_sequences() * 1000)[:-1] + _sequences()[:7] * 143))[0]

    assert found["rows"] == 9000
    assert 0 < len(found["lengths"]) <= 512


def test_the_shapes_of_a_graph_tell_products_with_weights() -> None:
    embedding, first = torch.nn.Embedding(90, 16), torch.nn.Linear(16, 32)
    loss = first(embedding(torch.tensor(_sequences()))).mean()

    shapes = {
        tuple(shape): (count, elements, products)
        for shape, count, elements, products in graph_shapes(nodes_below(loss, MOST_NODES) or set())
    }

    assert shapes[160, 32] == (1, 160 * 32, 160 * (16 * 32 + 32))
    assert shapes[8, 20, 16][1:] == (8 * 20 * 16 * shapes[8, 20, 16][0], 0)


def test_sequences_beside_the_texts_that_they_were_made_of_are_found() -> None:
    assert look_for_padding({"text": [f"text {k}" for k in range(256)], "ids": torch.tensor(_sequences())})[0]["lengths"] == LENGTHS


@pytest.mark.parametrize("down", [False, True], ids=["rises", "falls"])
def test_what_rises_or_falls_to_a_bound_and_stays_there_has_not_ended(down: bool) -> None:
    rises = torch.arange(20) * torch.arange(6, 14)[:, None]
    levels = (100 - rises).clamp(min=0) if down else rises.clamp(max=100)

    assert "lengths" not in look_for_padding(levels)[0]


@pytest.mark.parametrize("jittering", [1, 4, 8], ids=["in one row", "in half of the rows", "in each row"])
@pytest.mark.parametrize("side", [1, -1], ids=["at the end", "at the beginning"])
def test_what_jitters_on_its_way_to_a_bound_has_not_ended_either(jittering: int, side: int) -> None:
    levels = (torch.arange(20) * torch.arange(6, 14)[:, None]).clamp(max=100)
    # One step back in the midst of the way.
    levels[:jittering, 3], levels[:jittering, 4] = levels[:jittering, 4].clone(), levels[:jittering, 3].clone()

    assert "lengths" not in look_for_padding(levels if side > 0 else levels.flip(1))[0]


def test_short_sequences_some_of_which_rise_or_fall_by_chance_are_padded_all_the_same() -> None:
    rows = [[7, 3], [5], [9, 8, 6], [4, 8], [6, 2, 9], [8], [3, 9, 4, 7, 5, 8], [2, 3]]
    tags = torch.tensor([row + [0] * (10 - len(row)) for row in rows])

    assert look_for_padding(tags)[0]["lengths"] == [len(row) for row in rows]


def test_a_recurrence_uses_its_weights_for_each_place_and_layers_each_their_own() -> None:
    values = torch.nn.Embedding(90, 16)(torch.tensor(_sequences()))
    layers = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU()) for _ in range(20)))
    losses = torch.nn.GRU(16, 16, batch_first=True)(values)[0].mean(), layers(values.mean(1)).mean()

    loop, deep = (most_uses(nodes_below(loss, MOST_NODES) or set()) for loss in losses)

    assert loop >= 20
    assert deep < 4


def test_a_mask_is_no_sequence_even_where_another_one_hides_a_part_of_it() -> None:
    earlier = torch.ones(20, 20, dtype=torch.int64).tril()

    assert all("lengths" not in each for each in look_for_padding([earlier, earlier.bool()]))


@pytest.mark.slow
def test_a_look_at_many_arrays_takes_no_longer_than_at_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal read
        lines = lines_of(*args, **kwargs)
        read += sum(map(len, lines))
        return lines

    lines_of = padded._lines
    monkeypatch.setattr(padded, "_lines", counted)

    rows = random.Random(0).sample(_sequences() * 500, 4000)
    found = look_for_padding([torch.tensor(rows) for _ in range(64)])

    assert len(found) == 64
    assert all(len(each["lengths"]) > 50 for each in found)
    assert 0 < read <= padded._MOST_IN_ALL
