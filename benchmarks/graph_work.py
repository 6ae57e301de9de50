"""What backward takes for an element and for a product, and how long its forward is beside it.

    python benchmarks/graph_work.py [--threads 2]

Each model computes on batches of several sizes, in turns; the times are those of the thread's clock with one thread, and of the wall's with
more. Between two sizes what backward takes longer is held against what `graph_work` counts more; of the smallest, forward's time against
backward's. `slowstep.calibration.computing` holds bounds of both.
"""

from __future__ import annotations

import itertools
import operator
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from slowstep.analyses.compute.pass_work import MOST_NS
from slowstep.frameworks.torch.inside._autograd.graph_size import MOST_NODES, nodes_below
from slowstep.frameworks.torch.inside._autograd.graph_work import graph_work

ROUNDS = 9
Model = tuple[Callable[[Tensor], Tensor], Callable[[int], Tensor], tuple[int, ...]]


def weight(*shape: int) -> Tensor:
    return nn.Parameter(torch.randn(*shape) * 0.1)


def elementwise(operation: Callable[[Tensor], Tensor], width: int, sizes: tuple[int, ...]) -> Model:
    scale = weight(width)
    return lambda x: operation(operation(x * scale)).sum(), lambda n: torch.rand(n, width) + 0.5, sizes


def on(module: Callable[[Tensor], Any], *shape: int, sizes: tuple[int, ...]) -> Model:
    return lambda x: module(x).square().mean(), lambda n: torch.randn(n, *shape), sizes


def tokens(module: Callable[[Tensor], Any], length: int, words: int, sizes: tuple[int, ...]) -> Model:
    return lambda x: module(x).square().mean(), lambda n: torch.randint(0, words, (n, length)), sizes


def images(channels: int) -> nn.Module:
    layers = [nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU()) for _ in range(3)]
    return nn.Sequential(*layers, nn.MaxPool2d(2))


class Scattered(nn.Module):
    """Of rows, messages to others, added where they arrive."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width, self.first, self.second = width, nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        values, source = self.first(x), torch.randint(0, len(x), (4 * len(x),))
        target = torch.randint(0, len(x), (4 * len(x), 1)).expand(-1, self.width)
        return self.second(torch.zeros_like(values).scatter_add(0, target, values[source]))


class Cells(nn.Module):
    """A recurrent cell, place by place."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell = nn.GRUCell(width, width)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros(len(x), x.shape[2])
        for at in range(x.shape[1]):
            state = self.cell(x[:, at], state)
        return state


def multiplied(width: int) -> Model:
    """Small matrices with one another, one for each sample."""
    scale = weight(width, width)
    return lambda x: torch.bmm(x * scale, x - scale).sum(), lambda n: torch.randn(n, width, width), (64, 512, 4096)


class Pooled(nn.Module):
    """Features that are there already, by weights that are learned."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.bmm(self.score(x).softmax(1).transpose(1, 2), x)


def perceptron(*widths: int) -> nn.Module:
    layers = [layer for a, b in itertools.pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def encoder(width: int, layers: int) -> nn.Module:
    layer = nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True, dropout=0.1)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


FEW, SOME, MANY = (2, 8, 32), (4, 64, 1024), (64, 1024, 16384)
ROWS, COLUMNS = weight(8, 32), weight(32, 32)
MODELS: dict[str, Model] = {
    "relu": elementwise(torch.relu, 64, MANY),
    "gelu": elementwise(functional.gelu, 64, MANY),
    "tanh": elementwise(torch.tanh, 64, MANY),
    "power": elementwise(lambda x: x**1.7, 64, MANY),
    "softmax": elementwise(lambda x: x.softmax(-1), 64, MANY),
    "softmax of 4": elementwise(lambda x: x.softmax(-1), 4, MANY),
    "softmax of 12": elementwise(lambda x: x.softmax(-1), 12, MANY),
    "logarithm and exponential": elementwise(lambda x: x.log().exp(), 64, MANY),
    "divided, turned": elementwise(lambda x: (1.5 / x).t().contiguous().t(), 64, MANY),
    "masked": elementwise(lambda x: torch.where(x > 1, x, x * 0.5), 64, MANY),
    "layer norm": on(nn.LayerNorm(64), 64, sizes=MANY),
    "layer norm of 8": on(nn.LayerNorm(8), 8, sizes=MANY),
    "layer norm of 4": on(nn.LayerNorm(4), 4, sizes=MANY),
    "batch norm": on(nn.BatchNorm1d(64), 64, sizes=SOME),
    "embedding": tokens(nn.Embedding(2000, 64), 32, 2000, FEW),
    "embedding of 4": tokens(nn.Embedding(50000, 4), 32, 50000, (4, 64, 512)),
    "scattered": on(Scattered(16), 16, sizes=SOME),
    "rows taken": on(Scattered(2), 2, sizes=SOME),
    "columns taken": on(lambda x: functional.linear(x, COLUMNS).relu()[:, torch.arange(31, -1, -1)], 32, sizes=SOME),
    "rows of a table taken": on(lambda x: functional.linear(x, ROWS)[torch.randint(0, len(x), (len(x),))], 32, sizes=SOME),
    "matrices of 6": multiplied(6),
    "matrices of 8": multiplied(8),
    "pooled by weights": on(Pooled(64), 32, 64, sizes=FEW),
    "perceptron 16": on(perceptron(16, 16, 16, 1), 16, sizes=SOME),
    "perceptron 128": on(perceptron(32, 128, 128, 10), 32, sizes=SOME),
    "perceptron 1024": on(perceptron(1024, 1024, 1024, 10), 1024, sizes=FEW),
    "thin": on(perceptron(8192, 2), 8192, sizes=FEW),
    "of 4": on(perceptron(4, 4, 4, 4, 1), 4, sizes=SOME),
    "convolutions 8": on(images(8), 8, 16, 16, sizes=FEW),
    "convolutions 32": on(images(32), 32, 16, 16, sizes=FEW),
    "convolutions 64 of 4": on(images(64), 64, 4, 4, sizes=FEW),
    "convolutions in a line": on(nn.Conv1d(4, 64, 9), 4, 256, sizes=FEW),
    "depthwise": on(nn.Conv2d(32, 32, 3, groups=32), 32, 16, 16, sizes=FEW),
    "pools": on(nn.Sequential(nn.Conv2d(3, 8, 1), nn.MaxPool2d(2), nn.AvgPool2d(2)), 3, 32, 32, sizes=FEW),
    "overlapping pools": on(nn.Sequential(nn.Conv2d(3, 8, 1), nn.AvgPool2d(7, 1)), 3, 32, 32, sizes=FEW),
    "encoder 32": on(encoder(32, 2), 8, 32, sizes=FEW),
    "encoder 64": on(encoder(64, 2), 16, 64, sizes=FEW),
    "encoder 128": on(encoder(128, 2), 64, 128, sizes=FEW),
    "cells 32": on(Cells(32), 12, 32, sizes=FEW),
}


def measured(model: Model, clock: Callable[[], int]) -> list[dict[str, Any]]:
    step, draw, sizes = model
    took: dict[int, list[tuple[int, int]]] = {n: [] for n in sizes}
    work = {n: graph_work(nodes_below(step(draw(n)), MOST_NODES) or set()) for n in sizes}
    for turn in range(ROUNDS + 3):
        for n in sizes:
            x = draw(n)
            began = clock()
            loss = step(x)
            between = clock()
            loss.backward()
            if turn >= 3:
                took[n].append((between - began, clock() - between))
    return [
        {"n": n, "work": work[n], "forward": statistics.median(f for f, _ in took[n]), "backward": statistics.median(b for _, b in took[n])}
        for n in sizes
    ]


def bound(elements: int, dear: int, scattered: int, products: int) -> float:
    """What backward takes for them at most, ns."""
    return sum(map(operator.mul, (max(elements - dear, 0), dear, scattered, products), MOST_NS))


def main() -> None:
    threads = int(sys.argv[sys.argv.index("--threads") + 1]) if "--threads" in sys.argv else 1
    torch.set_num_threads(threads)
    clock = time.thread_time_ns if threads == 1 else time.perf_counter_ns
    print(f"{'model':26} {'to':>7} {'elements':>10} {'dear':>10} {'scattered':>9} {'products':>11} {'us':>9} {'at most':>9} {'of that':>8}")
    ratios = {}
    for name, model in MODELS.items():
        found = measured(model, clock)
        ratios[name] = found[0]["forward"] / found[0]["backward"]
        for small, large in itertools.pairwise(found):
            more = [b - a for a, b in zip(small["work"][:4], large["work"][:4], strict=True)]
            unknown = " ".join(large["work"].unknown)
            longer, most = large["backward"] - small["backward"], bound(*more)
            counts = f"{more[0]:10} {more[1]:10} {more[2]:9} {more[3]:11}"
            print(f"{name:26} {large['n']:7} {counts} {longer / 1e3:9.1f} {most / 1e3:9.1f} {longer / most:8.2f} {unknown}")
    print(
        "forward over backward, of the smallest:",
        ", ".join(f"{name} {ratio:.2f}" for name, ratio in sorted(ratios.items(), key=lambda r: r[1])),
    )


if __name__ == "__main__":
    main()
