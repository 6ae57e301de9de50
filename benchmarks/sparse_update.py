"""What a sparse update of embedding tables costs, and a dense one beside the optimizer's call: python benchmarks/sparse_update.py

CPU time of one thread, medians; `slowstep.calibration` has them from SPARSE_TABLE to AFTER_SWEEP_AT_MOST.
"""

from __future__ import annotations

import itertools
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

TABLES = ((100_000, 32), (1_000_000, 16), (300_000, 64), (2_000_000, 32))
IDS = (64, 512, 4096, 16384)
SPARSE: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SparseAdam": lambda weights: torch.optim.SparseAdam(weights),
    "Adagrad": lambda weights: torch.optim.Adagrad(weights),
    "SGD": lambda weights: torch.optim.SGD(weights, lr=0.1),
}
DENSE: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "Adam": lambda weights: torch.optim.Adam(weights),
    "Adam fused": lambda weights: torch.optim.Adam(weights, fused=True),
    "AdamW": lambda weights: torch.optim.AdamW(weights),
    "Adagrad": lambda weights: torch.optim.Adagrad(weights),
    "SGD": lambda weights: torch.optim.SGD(weights, lr=0.1),
    "SGD, momentum": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9),
}


def median_ns(calls: list[Callable[[], object]], times: int = 11) -> list[float]:
    """Of each call its median CPU time; they are made in turns."""
    took: list[list[int]] = [[] for _ in calls]
    for _ in range(times):
        for call, of in zip(calls, took, strict=True):
            began = time.thread_time_ns()
            call()
            of.append(time.thread_time_ns() - began)
    return [statistics.median(of) for of in took]


def sparse(rows: int, width: int, ids: int, make: Callable[[Any], torch.optim.Optimizer]) -> float:
    """Of a batch of so many ids: backward into a sparse gradient, update and zero_grad, beside those of a table of one row."""
    table, tiny = torch.nn.Embedding(rows, width, sparse=True), torch.nn.Embedding(rows, width)
    tiny.weight.requires_grad_(requires_grad=False)
    taken, optimizer = torch.randint(0, rows, (ids,)), make(table.parameters())
    leaf = torch.randn(ids, width, requires_grad=True)

    def with_table() -> None:
        table(taken).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    def without() -> None:
        (tiny(taken) + leaf).sum().backward()
        leaf.grad = None

    whole, rest = median_ns([with_table, without])
    return whole - rest


def dense(rows: int, width: int) -> tuple[float, float]:
    """Of each element: to free a dense gradient, and to add another one to it."""
    table, taken = torch.nn.Embedding(rows, width), torch.randint(0, rows, (64,))
    freed, added = [], []
    more = torch.ones(rows, width)
    for _ in range(9):
        table(taken).sum().backward()
        assert table.weight.grad is not None
        began = time.thread_time_ns()
        table.weight.grad.add_(more)
        then = time.thread_time_ns()
        table.weight.grad = None
        added.append(then - began)
        freed.append(time.thread_time_ns() - then)
    return statistics.median(freed) / (rows * width), statistics.median(added) / (rows * width)


def update(sizes: list[int], make: Callable[[Any], torch.optim.Optimizer]) -> float:
    """An update of so many parameters of these sizes."""
    weights = [torch.nn.Parameter(torch.randn(size)) for size in sizes]
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    return median_ns([make(weights).step])[0]


class Recommender:
    """Steps of a model of small tables, with a loader on the same thread."""

    def __init__(self, tables: int, width: int, batch: int) -> None:
        self._tables = torch.nn.ModuleList(torch.nn.Embedding(500, 16) for _ in range(tables))
        self._head = torch.nn.Sequential(torch.nn.Linear(16 * tables, width), torch.nn.ReLU(), torch.nn.Linear(width, 1))
        self._optimizer = torch.optim.Adam([*self._tables.parameters(), *self._head.parameters()])
        data = torch.utils.data.TensorDataset(torch.randint(0, 500, (20_000, tables)))
        loader = torch.utils.data.DataLoader(data, batch_size=batch, shuffle=True)
        self._batches = (ids for _ in itertools.count() for (ids,) in loader)

    def step(self) -> None:
        """Take a batch, and update by it."""
        ids = next(self._batches)
        self._optimizer.zero_grad()
        self._head(torch.cat([table(ids[:, at]) for at, table in enumerate(self._tables)], 1)).sum().backward()
        self._optimizer.step()


class Perceptron:
    """Steps of products alone."""

    def __init__(self, width: int, batch: int) -> None:
        layers = (torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 1))
        self._model, self._data = torch.nn.Sequential(*layers), torch.randn(batch, 64)
        self._optimizer = torch.optim.Adam(self._model.parameters())

    def step(self) -> None:
        """Update by the one batch."""
        self._optimizer.zero_grad()
        self._model(self._data).sum().backward()
        self._optimizer.step()


def after_sweep(step: Callable[[], None], mebibytes: int) -> tuple[float, float]:
    """A step after another one, and after so much memory was gone over."""
    swept, other = (torch.zeros(mebibytes << 18) for _ in range(2))
    took: tuple[list[int], list[int]] = ([], [])
    for _ in range(40):
        for before, of in ((step, took[0]), (lambda: swept.add_(other), took[1])):
            before()
            began = time.thread_time_ns()
            step()
            of.append(time.thread_time_ns() - began)
    return statistics.median(took[0]), statistics.median(took[1])


def main() -> None:
    """Print each."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for rows, width in TABLES:
        freed, added = dense(rows, width)
        print(f"{rows:,} x {width} ({rows * width * 4 / 2**20:.0f} MiB): freed {freed:.3f}, added {added:.2f} ns an element", flush=True)
        for name, make in SPARSE.items():
            took = [(ids, sparse(rows, width, ids, make)) for ids in IDS]
            print(f"  {name}: " + ", ".join(f"{ids} ids {ns / 1e3:.0f} us, {ns / ids:.0f} ns each" for ids, ns in took), flush=True)
    for name, make in DENSE.items():
        tiny, small = update([16] * 50, make) / 50, update([16384] * 50, make) / 50 / 16384
        large = update([8_000_000], make) / 8_000_000
        print(f"{name}: {tiny / 1e3:.1f} us a tensor of 16, {small:.2f} ns an element of 16384, {large:.2f} of 8 million", flush=True)
    models: dict[str, Recommender | Perceptron] = {
        **{f"perceptron {sizes}": Perceptron(*sizes) for sizes in ((32, 64), (128, 512), (256, 256), (512, 1024))},
        **{f"tables {sizes}": Recommender(*sizes) for sizes in ((2, 128, 256), (6, 128, 256), (26, 128, 512), (2, 256, 1024), (1, 16, 64))},
    }
    for name, model in models.items():
        for mebibytes in (16, 64, 256):
            warm, cold = after_sweep(model.step, mebibytes)
            print(f"{name}: {warm / 1e6:.2f} ms, {cold / 1e6:.2f} ms after {mebibytes} MiB", flush=True)


if __name__ == "__main__":
    main()
