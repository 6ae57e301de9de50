"""What a recurrent layer takes for a sequence in one call, beside a call for each of its places, forward and backward.

Prints a row a layer, size and length; no options, a minute. Both take turns, so that they meet the same load of the machine.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

# Samples, features that are taken and given, and places.
SIZES = ((8, 32, 32, 32), (16, 128, 128, 64), (32, 64, 64, 48), (64, 128, 256, 24), (128, 256, 256, 32))
WARMUP, ROUNDS = 2, 9


def at_once(layer: nn.RNNBase, x: torch.Tensor) -> None:
    layer(x)[0].sum().backward()


def by_places(layer: nn.RNNBase, x: torch.Tensor) -> None:
    state: Any = None
    outputs = []
    for place in x:
        output, state = layer(place[None], state)
        outputs.append(output)
    torch.cat(outputs).sum().backward()


def by_cell(cell: nn.RNNCellBase, x: torch.Tensor) -> None:
    state: Any = None
    outputs = []
    for place in x:
        state = cell(place, state)
        outputs.append(state[0] if isinstance(state, tuple) else state)
    torch.stack(outputs).sum().backward()


def seconds(act: Callable[[], None]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def measure(name: str, samples: int, taken: int, given: int, places: int) -> tuple[float, ...]:
    """By a call for each place and by a cell: ms, and how many times as long a whole sequence in one call takes."""
    layer, cell = getattr(nn, name)(taken, given), getattr(nn, f"{name}Cell")(taken, given)
    x = torch.randn(places, samples, taken)
    acts: tuple[Callable[[], None], ...] = (partial(at_once, layer, x), partial(by_places, layer, x), partial(by_cell, cell, x))
    for _ in range(WARMUP):
        for act in acts:
            act()
    rows = [tuple(map(seconds, acts)) for _ in range(ROUNDS)]
    found = []
    for at in (1, 2):
        found += [statistics.median(row[at] for row in rows) * 1e3, statistics.median(row[0] / row[at] for row in rows)]
    return tuple(found)


def main() -> None:
    print(f"{'':6} {'samples, features, places':28} {'by places ms':>12} {'at once':>8} {'by cell ms':>12} {'at once':>8}")
    for name in ("LSTM", "GRU", "RNN"):
        for size in SIZES:
            by_places_ms, of_places, by_cell_ms, of_cell = measure(name, *size)
            print(f"{name:6} {size!s:28} {by_places_ms:12.1f} {of_places:8.2f} {by_cell_ms:12.1f} {of_cell:8.2f}", flush=True)


if __name__ == "__main__":
    main()
