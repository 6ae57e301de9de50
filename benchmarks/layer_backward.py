"""How long the backward of layers takes beside their forward, of models as they are trained on a processor.

Prints one row a model: forward and backward, the fastest and the median of all rounds, and their ratio. One core, no options.
`slowstep.calibration.computing` holds the usual ratio and its bounds.
"""

from __future__ import annotations

import statistics
import time

import torch
from torch import nn

ROUNDS = 25


def convolutions(channels: int) -> nn.Module:
    return nn.Sequential(
        *[nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU()) for _ in range(4)]
    )


def depthwise(channels: int) -> nn.Module:
    return nn.Sequential(*[nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1, groups=channels), nn.SiLU()) for _ in range(4)])


def perceptron(width: int) -> nn.Module:
    return nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(4)])


def transformer(width: int) -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True), 2)


class First(nn.Module):
    """A recurrent layer without its states."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        first: torch.Tensor = self.layer(data)[0]
        return first


MODELS = {
    "convolutions 16": (convolutions(16), (8, 16, 32, 32)),
    "convolutions 64": (convolutions(64), (8, 64, 16, 16)),
    "convolutions and pooling": (
        nn.Sequential(nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(24, 32, 3), nn.ReLU()),
        (8, 3, 56, 56),
    ),
    "transposed convolutions": (nn.Sequential(nn.ConvTranspose2d(32, 24, 2, stride=2), nn.ReLU(), nn.Conv2d(24, 2, 1)), (8, 32, 28, 28)),
    "depthwise 64": (depthwise(64), (8, 64, 24, 24)),
    "perceptron 256": (perceptron(256), (64, 256)),
    "perceptron 1024": (perceptron(1024), (64, 1024)),
    "transformer 64": (transformer(64), (8, 48, 64)),
    "transformer 256": (transformer(256), (4, 64, 256)),
    "LSTM 64": (First(nn.LSTM(64, 64, batch_first=True)), (16, 24, 64)),
    "GRU 128": (First(nn.GRU(128, 128, batch_first=True)), (16, 24, 128)),
    "norms and activations": (nn.Sequential(nn.LayerNorm(512), nn.GELU(), nn.LayerNorm(512), nn.Tanh(), nn.Dropout(0.1)), (512, 512)),
    "pooling": (nn.Sequential(nn.MaxPool2d(2), nn.AvgPool2d(2), nn.ReLU()), (16, 64, 32, 32)),
}


def measure(model: nn.Module, shape: tuple[int, ...]) -> list[tuple[float, float]]:
    """Seconds of processor time of forward and of backward, a round each."""
    data = torch.randn(shape, requires_grad=True)
    taken = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        output = model(data).square().mean()
        between = time.process_time()
        output.backward()
        taken.append((between - begin, time.process_time() - between))
    return taken


def main() -> None:
    torch.set_num_threads(1)
    for name, (model, shape) in MODELS.items():
        taken = measure(model, shape)
        (forward, backward), (middle, late) = (map(kind, zip(*taken, strict=True)) for kind in (min, statistics.median))
        print(f"{name:26} fastest {1e3 * forward:7.2f} {1e3 * backward:7.2f} ms  {backward / forward:5.2f}   median {late / middle:5.2f}")


if __name__ == "__main__":
    main()
