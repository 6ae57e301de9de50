"""What of forward and backward grows with the length of sequences: measured, and told from the shapes in a graph.

    python benchmarks/padded_lengths.py

Each model computes on sequences of one length and of half and a quarter of it, in turns, on one core; the times are processor times of
the thread, so that others on the machine change little. Printed: the share of the long one's time that the shorter ones save, by that of
the places which they save, and what `find_padded_work` says of the long one's graph; at the end the costs of an element and of a product
with a weight for which both agree best.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import polars as pl
import torch
from torch import Tensor, nn

from slowstep.analyses.input import padded_work
from slowstep.analyses.input.padded_work import find_padded_work
from slowstep.analyses.input.place_layout import Batch
from slowstep.calibration import computing
from slowstep.frameworks.torch.inside._autograd.graph_shapes import graph_shapes, most_uses
from slowstep.frameworks.torch.inside._autograd.graph_size import MOST_NODES, nodes_below

ROUNDS = 9
ELEMENTS, PRODUCTS = (0.5, 0.7, 1, 1.5, 2, 3, 4), (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2)


class Tokens(nn.Module):
    """An embedding, layers, and the mean or the maximum over places."""

    def __init__(self, width: int, *layers: nn.Module, over: Callable[[Tensor], Tensor], head: nn.Module) -> None:
        super().__init__()
        self.embedding, self.layers, self.over, self.head = nn.Embedding(2000, width), nn.ModuleList(layers), over, head

    def forward(self, tokens: Tensor) -> Tensor:
        values = self.embedding(tokens)
        for layer in self.layers:
            made = layer(values)
            values = made[0] if isinstance(made, tuple) else made
        return self.head(self.over(values))


class Convolutions(nn.Module):
    """Of characters."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(16, width, 7, padding=3), nn.Conv1d(width, width, 5, padding=2)

    def forward(self, values: Tensor) -> Tensor:
        return self.second(self.first(values.transpose(1, 2)).relu()).relu().transpose(1, 2)


def mean(values: Tensor) -> Tensor:
    return values.mean(1)


def encoder(width: int, layers: int) -> list[nn.Module]:
    return [nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True, dropout=0.0) for _ in range(layers)]


def wide(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2))


# Models by name, with the sequences in a batch and their length.
MODELS: dict[str, tuple[Callable[[], nn.Module], int, int]] = {
    "gru": (lambda: Tokens(32, nn.GRU(32, 48, batch_first=True), over=mean, head=nn.Linear(48, 2)), 16, 128),
    "lstm": (lambda: Tokens(32, nn.LSTM(32, 64, batch_first=True), over=mean, head=nn.Linear(64, 2)), 16, 128),
    "encoder": (lambda: Tokens(64, *encoder(64, 2), over=mean, head=nn.Linear(64, 2)), 16, 128),
    "small encoder": (lambda: Tokens(32, *encoder(32, 2), over=mean, head=nn.Linear(32, 2)), 4, 32),
    "wide encoder": (lambda: Tokens(256, *encoder(256, 3), over=mean, head=nn.Linear(256, 2)), 8, 128),
    "convolutions": (lambda: Tokens(16, Convolutions(64), over=mean, head=nn.Linear(64, 2)), 16, 256),
    "mean, then wide": (lambda: Tokens(32, over=mean, head=wide(1024)), 64, 64),
    "mean, then narrow": (lambda: Tokens(32, over=mean, head=wide(32)), 64, 256),
    "word by word": (lambda: Tokens(64, nn.Linear(64, 256), nn.ReLU(), over=mean, head=nn.Linear(256, 200)), 16, 128),
}


def step_ns(model: nn.Module, tokens: Tensor) -> int:
    began_ns = time.thread_time_ns()
    model(tokens).square().mean().backward()
    return time.thread_time_ns() - began_ns


def measured(name: str) -> dict[str, Any]:
    build, rows, length = MODELS[name]
    torch.manual_seed(0)
    model = build()
    given = {n: torch.randint(5, 2000, (rows, n)) for n in (length, length // 2, length // 4)}
    for _ in range(3):
        for tokens in given.values():
            step_ns(model, tokens)
    times: dict[int, list[int]] = {n: [] for n in given}
    for _ in range(ROUNDS):
        for n, tokens in given.items():
            times[n].append(step_ns(model, tokens))
    took = {n: statistics.median(each) for n, each in times.items()}
    nodes = nodes_below(model(given[length]).square().mean(), MOST_NODES) or set()
    weights = sum(parameter.numel() for parameter in model.parameters())
    saved = {n: (1 - took[n] / took[length]) / (1 - n / length) for n in took if n != length}
    return {"name": name, "rows": rows, "length": length, "ms": took[length] / 1e6, "saved": saved, "nodes": len(nodes), "weights": weights,
            "uses": most_uses(nodes), "shapes": graph_shapes(nodes)}  # fmt: skip


def told(found: dict[str, Any]) -> Any:
    of = {"time_ns": 1, "nodes": found["nodes"], "uses": found["uses"]}
    rows = [of | {"shape": s, "count": c, "elements": e, "products": p} for s, c, e, p in found["shapes"]]
    batch = Batch(rows=found["rows"], length=found["length"], filled=None, longest=found["length"])
    return find_padded_work(pl.DataFrame(rows), [(0, batch)], found["weights"])


def off(found: list[dict[str, Any]], element: float, product: float) -> float:
    """The largest difference between what is told and what was measured with half of the length."""
    padded_work.ELEMENT, padded_work.PRODUCT = (
        dataclasses.replace(cost, value=value) for cost, value in ((computing.GIVEN_ELEMENT, element), (computing.WEIGHT_PRODUCT, product))
    )
    return max(abs(saving(told(each).usual) - each["saved"][each["length"] // 2]) for each in found)


def saving(exponents: Any) -> float:
    """Of half of the length, by the places that this saves."""
    return float(exponents.linear + 1.5 * exponents.square)


def main() -> None:
    torch.set_num_threads(1)
    found = [measured(name) for name in MODELS]
    for each in found:
        work = told(each)
        half = each["saved"][each["length"] // 2]
        said = ", ".join(f"{saving(part):.2f}" for part in (work.least, work.usual, work.most))
        print(f"{each['name']:20} {each['ms']:7.2f} ms  half {half:.2f}  quarter {each['saved'][each['length'] // 4]:.2f}  told {said}")
    if "--json" in sys.argv:
        print(json.dumps(found))
    ranked = sorted((off(found, *costs), *costs) for costs in itertools.product(ELEMENTS, PRODUCTS))
    for worst, element, product in ranked[:5]:
        print(f"off by {worst:.2f} at most with {element} ns an element and {product} ns a product")


if __name__ == "__main__":
    main()
