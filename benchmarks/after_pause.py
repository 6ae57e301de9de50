"""How much longer a step takes after its thread has done something else: by model, threads, and what was done for how long.

Prints a table; names of models may be given, all take some fifteen minutes. Blocks with the pause and without it take turns. With
`--processor-time` the clock is that of the thread alone, and operations have one: for a machine that others use.
"""

from __future__ import annotations

import statistics
import sys
import time
import zlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from paired import estimate
from torch import nn

LENGTHS_S = (0.003, 0.010, 0.025)
THREADS = (1, 2)
PROCESSOR_TIME = "--processor-time"
CLOCK = time.thread_time if PROCESSOR_TIME in sys.argv else time.perf_counter
ROUNDS, STEPS = 8, 20
# Of a block: those that follow the other kind, and those that others held up.
FIRST, SLOWEST = 4, 3


class Attention(nn.Module):
    """A block of a transformer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        inputs = inputs + self.attention(inputs, inputs, inputs, need_weights=False)[0]
        return inputs + self.inner(inputs)


def perceptron(*widths: int) -> nn.Module:
    return nn.Sequential(*(layer for i in range(len(widths) - 1) for layer in (nn.Linear(widths[i], widths[i + 1]), nn.ReLU())))


class Model(NamedTuple):
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]


MODELS = {
    "small": Model(lambda: perceptron(32, 64, 10), (32, 32)),
    "middle": Model(lambda: perceptron(256, 512, 512, 10), (64, 256)),
    "wide": Model(lambda: perceptron(1024, 2048, 1024), (64, 1024)),
    "deep": Model(lambda: perceptron(*[64] * 40), (32, 64)),
    "convolutions": Model(lambda: nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2)), (16, 3, 32, 32)),
    "transformer": Model(lambda: nn.Sequential(*(Attention(64) for _ in range(4))), (8, 32, 64)),
}
NUMBERS = np.random.default_rng(0).random(8_000_000)


def lines() -> None:
    found = {}
    for index in range(2_000):
        found[index] = str(index)


def sums() -> None:
    NUMBERS[:: np.random.randint(1, 4)].sum()


def pictures() -> None:
    zlib.compress((NUMBERS[:12_000] * 255).astype(np.uint8).tobytes())


def tensors() -> None:
    torch.randn(64, 64, 64).sort(dim=-1)


PAUSES: dict[str, Callable[[], object]] = {
    "asleep": lambda: time.sleep(0.001),
    "lines of Python": lines,
    "sums over 64 MB": sums,
    "pictures": pictures,
    "operations on tensors": tensors,
}


def paused(act: Callable[[], object], length_s: float) -> None:
    end = time.perf_counter() + length_s
    while time.perf_counter() < end:
        act()


def measure(model: Model, act: Callable[[], object], length_s: float) -> tuple[list[float], list[float]]:
    """Milliseconds that a step takes after the pause, and without one: means of blocks, in pairs."""
    network, inputs = model.make(), torch.randn(*model.shape)
    optimizer = torch.optim.Adam(network.parameters())

    def block_ms(*, pauses: bool) -> float:
        taken = []
        for _ in range(STEPS):
            if pauses:
                paused(act, length_s)
            begin = CLOCK()
            optimizer.zero_grad()
            network(inputs).square().mean().backward()
            optimizer.step()
            taken.append(CLOCK() - begin)
        return statistics.mean(sorted(taken[FIRST:])[:-SLOWEST]) * 1e3

    block_ms(pauses=False)
    pairs = [(block_ms(pauses=True), block_ms(pauses=False)) for _ in range(ROUNDS)]
    after, usual = zip(*pairs, strict=True)
    return list(after), list(usual)


def main() -> None:
    ratios = []
    print(f"{'model':12} {'threads':>7} {'pause':22} {'ms':>4} {'step ms':>8} {'longer, ms':>22} {'ratio':>22}")
    for name in [name for name in sys.argv[1:] if name != PROCESSOR_TIME] or MODELS:
        for threads in THREADS[:1] if PROCESSOR_TIME in sys.argv else THREADS:
            torch.set_num_threads(threads)
            for kind, act in PAUSES.items():
                for length_s in LENGTHS_S:
                    after, usual = measure(MODELS[name], act, length_s)
                    longer = estimate([a - b for a, b in zip(after, usual, strict=True)])
                    ratio = estimate([a / b for a, b in zip(after, usual, strict=True)])
                    ratios.append(ratio.value)
                    row = f"{name:12} {threads:7} {kind:22} {length_s * 1e3:4.0f} {statistics.median(usual):8.2f}"
                    print(f"{row} {longer.shown(2):>22} {ratio.shown(2):>22}", flush=True)
    print(f"\nratio: median {statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}")


if __name__ == "__main__":
    main()
