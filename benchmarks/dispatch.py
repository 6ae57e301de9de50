"""What forward and backward cost however small the input, per autograd node and per weight, and what a further sample costs.

Prints two tables; one core, no options. The constants in `slowstep.analyses.compute.fixed_cost` are upper bounds of what the first shows,
those in `slowstep.diagnosis.rules.small_batch` hold the slopes that the second shows.
"""

from __future__ import annotations

import statistics
import time

import torch
from torch import nn

from slowstep.frameworks.torch.inside._autograd.graph_size import graph_size

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


SLOPE_SIZES = (1, 4, 32)
SLOPE_MODELS = {
    "convolutions 16": (convolutions(16), (16, 32, 32)),
    "convolutions 64": (convolutions(64), (64, 16, 16)),
    "convolutions 128": (convolutions(128), (128, 8, 8)),
    "perceptron 512": (nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)), (512,)),
    "transformer 128": (nn.TransformerEncoder(nn.TransformerEncoderLayer(128, 4, 256, batch_first=True), 3), (32, 128)),
    "recurrent 64": (nn.GRU(64, 64, batch_first=True), (24, 64)),
}


def slopes() -> None:
    """How much a further sample costs: from 4 to 32 samples against from 1 to 4."""
    print(f"\n{'model':18} {'ms at 1':>8} {'at 4':>8} {'at 32':>8} {'slope 4-32 / slope 1-4':>23}")
    for name, (model, shape) in SLOPE_MODELS.items():
        one, four, many = (measure(model, (size, *shape))[0] * 1e3 for size in SLOPE_SIZES)
        print(f"{name:18} {one:8.2f} {four:8.2f} {many:8.2f} {(many - four) / 28 / ((four - one) / 3):23.2f}")


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'model':18} {'nodes':>6} {'weights':>10} {'us':>9} {'us/node':>8} {'ns/weight':>9}")
    for name, (model, shape) in MODELS.items():
        seconds, nodes, weights = measure(model, shape)
        print(f"{name:18} {nodes:6} {weights:10} {seconds * 1e6:9.0f} {seconds * 1e6 / nodes:8.1f} {seconds * 1e9 / weights:9.1f}")
    slopes()


if __name__ == "__main__":
    main()
