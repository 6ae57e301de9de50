"""What of a model's work is told to grow with the length of its sequences, by the graph of a real pass."""

from __future__ import annotations

import polars as pl
import pytest
import torch
from torch import Tensor, nn

from slowstep.analyses.input.padded_work import Exponents, find_padded_work
from slowstep.analyses.input.place_layout import Batch
from slowstep.frameworks.torch.inside._autograd.graph_shapes import graph_shapes, most_uses
from slowstep.frameworks.torch.inside._autograd.graph_size import MOST_NODES, nodes_below

WORDS = 1000


def _grows(loss: Tensor, rows: int, length: int) -> Exponents:
    """As expected."""
    nodes = nodes_below(loss, MOST_NODES) or set()
    of = {"time_ns": 1, "nodes": len(nodes), "uses": most_uses(nodes)}
    shapes = [of | {"shape": s, "count": c, "elements": e, "products": p} for s, c, e, p in graph_shapes(nodes)]
    work = find_padded_work(pl.DataFrame(shapes), [(0, Batch(rows=rows, length=length, filled=None, longest=length // 2))], 0)
    assert work is not None
    return work.usual


def _sequences(rows: int, length: int) -> Tensor:
    return torch.randint(1, WORDS, (rows, length))


class Encoder(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True, dropout=0.0)
        self.embedding, self.layers = nn.Embedding(WORDS, width), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, sequences: Tensor) -> Tensor:
        return torch.as_tensor(self.layers(self.embedding(sequences)).mean(1))


def _residual_layers(values: Tensor, count: int) -> Tensor:
    width = values.shape[1]
    for _ in range(count):
        values = values + nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))(values)
    return values


@pytest.mark.parametrize(("rows", "length", "width"), [(16, 128, 64), (64, 64, 64), (16, 64, 64), (32, 32, 128)])
def test_an_encoders_work_goes_with_the_length_whatever_else_is_as_long(rows: int, length: int, width: int) -> None:
    grows = _grows(Encoder(width)(_sequences(rows, length)).mean(), rows, length)

    assert grows.linear > 0.5
    assert grows.square == 0.0


def test_a_recurrence_without_packing_goes_with_the_length() -> None:
    values = nn.Embedding(WORDS, 32)(_sequences(16, 64))

    assert _grows(nn.GRU(32, 48, batch_first=True)(values)[0][:, -1].mean(), 16, 64).linear > 0.8


def test_what_is_cut_to_the_longest_within_the_model_does_not() -> None:
    assert _grows(Encoder(128)(_sequences(16, 128)[:, :50]).mean(), 16, 128).linear == 0.0


def test_layers_behind_a_few_padded_tags_do_not() -> None:
    tags = nn.Embedding(WORDS, 64)(_sequences(32, 16)).mean(1)

    assert _grows(_residual_layers(tags, 12).mean(), 32, 16).linear < 0.05


@pytest.mark.parametrize("length", [32, 64, 128])
def test_images_beside_padded_captions_do_not(length: int) -> None:
    images = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 128, 3, padding=1), nn.ReLU())
    captions = nn.Embedding(WORDS, 128)(_sequences(4, length)).mean(1)

    grows = _grows((images(torch.randn(4, 3, 32, 32)).mean((2, 3)) * captions).mean(), 4, length)

    assert grows.linear + grows.square < 0.1


def test_patches_of_images_beside_padded_captions_do_not() -> None:
    patches = nn.Linear(48, 128)(torch.randn(4, 256, 48))
    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.0)
    captions = nn.Embedding(WORDS, 128)(_sequences(4, 64)).mean(1)

    assert _grows((layer(patches).mean(1) * captions).mean(), 4, 64).linear < 0.1


def test_a_model_with_weights_for_each_place_takes_no_fewer() -> None:
    layers = nn.Sequential(nn.Embedding(WORDS, 32), nn.Linear(32, 64), nn.ReLU(), nn.Flatten(), nn.Linear(96 * 64, 8))

    assert _grows(layers(_sequences(16, 96)).mean(), 16, 96).linear == 0.0
