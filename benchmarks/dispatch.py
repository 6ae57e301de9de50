"""What forward and backward cost however small the input: per autograd node and per weight. Prints a table; one core, no options.

The two constants in `slowstep.analyses.fixed_cost` are upper bounds of what this shows.
"""

from __future__ import annotations

import statistics
import time

import torch
from torch import nn

from slowstep.record.graph import graph_size

REPEATS = 60


def convolutions(channels: int) -> nn.Module:
    return nn.Sequential(
        *[nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU()) for _ in range(6)]
    )


MODELS = {
    "perceptron 16": (nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1)), (1, 16)),
    "perceptron 2048": (nn.Sequential(nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 2048)), (1, 2048)),
    "convolutions 8": (convolutions(8), (1, 8, 4, 4)),
    "convolutions 64": (convolutions(64), (1, 64, 4, 4)),
    "convolutions 256": (convolutions(256), (1, 256, 4, 4)),
    "transformer 32": (nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 2, 64, batch_first=True), 2), (1, 4, 32)),
    "recurrent 32": (nn.GRU(32, 32, batch_first=True), (1, 8, 32)),
}


def measure(model: nn.Module, shape: tuple[int, ...]) -> tuple[float, int, int]:
    """Median seconds of forward and backward, nodes, weights."""
    data = torch.randn(shape)
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        output = model(data)
        loss = (output[0] if isinstance(output, tuple) else output).sum()
        loss.backward()
        times.append(time.perf_counter() - begin)
    output = model(data)
    size = graph_size((output[0] if isinstance(output, tuple) else output).sum()) or {}
    return statistics.median(times), size["nodes"], size["elements"]


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'model':18} {'nodes':>6} {'weights':>10} {'us':>9} {'us/node':>8} {'ns/weight':>9}")
    for name, (model, shape) in MODELS.items():
        seconds, nodes, weights = measure(model, shape)
        print(f"{name:18} {nodes:6} {weights:10} {seconds * 1e6:9.0f} {seconds * 1e6 / nodes:8.1f} {seconds * 1e9 / weights:9.1f}")


if __name__ == "__main__":
    main()
