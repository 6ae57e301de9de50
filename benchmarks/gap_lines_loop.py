"""Loops without a loader whose batch is made by one function, and some with another after the update: `gap_lines.py` runs them.

gap_lines_loop.py MAKE[+AFTER] [--timed]
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

STEPS = 2500
SERIES, TABLE = torch.randn(100_000, 8), torch.randn(1000, 32)
LINES = [json.dumps({"x": [random.random() for _ in range(64)]}) for _ in range(64)]


def starts() -> torch.Tensor:
    return torch.randint(0, 99_000, (128,))


def windows() -> torch.Tensor:
    """Slices, one by one."""
    return torch.stack([SERIES[start : start + 32] for start in starts().tolist()]).view(128, 256)


def gather() -> torch.Tensor:
    """The same in one operation."""
    return SERIES[starts()[:, None] + torch.arange(32)].view(128, 256)


def changed(row: list[int]) -> list[int]:
    found = []
    for index in range(64):
        value = row[index]
        if value % 3 == 0:
            value = (value * 7 + index) % 1000
        found.append(value)
    return found


def tokens() -> torch.Tensor:
    """Two loops in Python, one in the other."""
    rows = [changed([(row * 31 + index) % 1000 for index in range(64)]) for row in range(16)]
    return TABLE[torch.tensor(rows).view(-1)].view(128, 256)


def parse() -> torch.Tensor:
    """A loop over long calls of a library."""
    return torch.tensor([json.loads(line)["x"] for line in LINES]).repeat(2, 4)


def draw() -> torch.Tensor:
    """A loop over short calls."""
    return torch.tensor([[random.random() for _ in range(64)] for _ in range(32)]).repeat(4, 4)


def count(model: torch.nn.Module) -> None:
    """A generator."""
    sum(index * index for index in range(1500))


def stats(model: torch.nn.Module) -> None:
    """Short calls of torch."""
    for parameter in model.parameters():
        parameter.detach().abs().mean().item()
        parameter.grad.norm().item()  # type: ignore[union-attr]


def timed(function: Callable[..., Any], spent: dict[str, float]) -> Callable[..., Any]:
    def called(*arguments: Any) -> Any:
        began = time.perf_counter()
        result = function(*arguments)
        spent[function.__name__] = spent.get(function.__name__, 0.0) + time.perf_counter() - began
        return result

    return called


def main() -> None:
    make, _, after = sys.argv[1].partition("+")
    functions: list[Callable[..., Any]] = [globals()[make], globals().get(after, lambda model: None)]
    spent: dict[str, float] = {}
    if "--timed" in sys.argv:
        functions = [timed(function, spent) for function in functions]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    make_batch, look_at = functions
    model = torch.nn.Sequential(torch.nn.Linear(256, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    began = time.perf_counter()
    for _ in range(STEPS):
        inputs = make_batch()
        optimizer.zero_grad()
        model(inputs).pow(2).mean().backward()
        optimizer.step()
        if after:
            look_at(model)
    whole = time.perf_counter() - began
    print(json.dumps({name: seconds / whole for name, seconds in spent.items()}))


if __name__ == "__main__":
    main()
