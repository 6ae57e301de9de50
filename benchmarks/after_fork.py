"""How many times as long a step takes right after a fork, by model: pages of its memory are copied when next written to; no options.

The constants in `slowstep.calibration` hold what this prints.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

# Width, layers and batch size of a chain of linear layers, and its optimizer.
MODELS = (
    (64, 3, 32, "SGD"),
    (256, 3, 32, "SGD"),
    (1024, 2, 32, "SGD"),
    (1024, 2, 256, "SGD"),
    (1024, 8, 32, "Adam"),
    (2048, 4, 64, "Adam"),
)
REPEATS = 30


@contextmanager
def forked() -> Iterator[None]:
    """With a child that does nothing, as a worker that waits for its first task."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writes)
        os.read(reads, 1)
        os._exit(0)
    yield
    os.close(writes)
    os.close(reads)
    os.waitpid(child, 0)


def times_as_long(width: int, layers: int, batch: int, optimizer: str) -> float:
    """Median of a step after a fork by that of others, in turns."""
    model = nn.Sequential(*(layer for _ in range(layers) for layer in (nn.Linear(width, width), nn.ReLU())))
    update = getattr(torch.optim, optimizer)(model.parameters(), lr=1e-4)
    data = torch.randn(batch, width)

    def step_s() -> float:
        begin = time.perf_counter()
        update.zero_grad()
        model(data).square().mean().backward()
        update.step()
        return time.perf_counter() - begin

    after, usual = [], []
    for _ in range(REPEATS):
        with forked():
            after.append(step_s())
        step_s()
        usual.append(step_s())
    return statistics.median(after) / statistics.median(usual)


if __name__ == "__main__":
    torch.set_num_threads(1)
    found = []
    for setting in MODELS:
        found.append(times_as_long(*setting))
        print(*setting, f"{found[-1]:.2f}")
    print(f"median {statistics.median(found):.2f}")
