"""How much longer a step takes after its loader has begun a shuffled pass, by data set and model: a list of all indices is made, and fills
the caches; no options.

The constant in `slowstep.calibration` holds what this prints, in ns per index.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LENGTHS = (10_000, 100_000, 400_000)
# Width of two linear layers, and their optimizer.
MODELS = ((32, "SGD"), (128, "SGD"), (512, "SGD"), (512, "AdamW"), (1024, "SGD"))
FEATURES, BATCH = 32, 64
ROUNDS, STEPS = 9, 8


def longer_ns(length: int, width: int, optimizer: str) -> tuple[float, float]:
    """By how much a step is longer where its batch is the first of a new iterator, and a usual step: medians of rounds, in turns."""
    model = nn.Sequential(nn.Linear(FEATURES, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 8))
    update = getattr(torch.optim, optimizer)(model.parameters(), lr=1e-3)
    loader = DataLoader(TensorDataset(torch.randn(length, FEATURES)), batch_size=BATCH, shuffle=True)

    def steps_ns(batches: Iterator[list[torch.Tensor]]) -> float:
        taken = []
        for _ in range(STEPS):
            (inputs,) = next(batches)
            begin = time.perf_counter_ns()
            update.zero_grad()
            model(inputs).square().mean().backward()
            update.step()
            taken.append(time.perf_counter_ns() - begin)
        # The first ones of each round follow the other kind.
        return statistics.median(taken[STEPS // 2 :])

    longer, usual = [], []
    for _ in range(ROUNDS):
        anew = steps_ns(next(iter(loader)) for _ in range(STEPS))
        usual.append(steps_ns(iter(loader)))
        longer.append(anew - usual[-1])
    return statistics.median(longer), statistics.median(usual)


if __name__ == "__main__":
    torch.set_num_threads(1)
    found = []
    for length in LENGTHS:
        for width, optimizer in MODELS:
            longer, usual = longer_ns(length, width, optimizer)
            found.append(longer / length)
            print(f"{length} {width} {optimizer}: {longer / 1e6:.3f} ms on top of {usual / 1e6:.3f} ms, {found[-1]:.2f} ns an index")
    print(f"median {statistics.median(found):.2f}, most {max(found):.2f} ns an index")
