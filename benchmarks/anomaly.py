"""What anomaly detection takes of forward and backward, and how much of the former its stacks take.

For each model blocks of passes with it and without it take turns. Prints the medians; of the forward also what is in the standard library's
`traceback`, which writes down the stack of each operation: that is what stacks of a recording see. `slowstep.calibration` holds what
checking the gradients takes of backward.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
import traceback
from collections.abc import Callable

import torch
from torch import nn

from slowstep.frameworks.torch.inside._autograd.graph_size import graph_size

BLOCKS, PASSES = 12, 12


class Recursive(nn.Module):
    """A deep call chain of the user's own around small operations."""

    def __init__(self, depth: int, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.below = Recursive(depth - 1, width) if depth else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.layer(x))
        return x if self.below is None else x + self.below(x)


def convolutions(channels: int, layers: int) -> nn.Module:
    return nn.Sequential(
        *[nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU()) for _ in range(layers)]
    )


def perceptron(width: int, layers: int) -> nn.Module:
    return nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(layers)])


def transformer(width: int, layers: int) -> nn.Module:
    return nn.TransformerEncoder(
        nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True), layers, enable_nested_tensor=False
    )


MODELS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {
    "perceptron 64": lambda: (perceptron(64, 6), torch.randn(64, 64)),
    "perceptron 1024": lambda: (perceptron(1024, 4), torch.randn(128, 1024)),
    "convolutions 16": lambda: (convolutions(16, 6), torch.randn(8, 16, 32, 32)),
    "convolutions 64": lambda: (convolutions(64, 6), torch.randn(16, 64, 28, 28)),
    "transformer 64": lambda: (transformer(64, 4), torch.randn(8, 32, 64)),
    "transformer 256": lambda: (transformer(256, 4), torch.randn(8, 128, 256)),
    "recursive 30": lambda: (Recursive(30, 32), torch.randn(32, 32)),
    "elementwise": lambda: (
        nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Softplus()) for _ in range(8)]),
        torch.randn(4096, 64),
    ),
}


class Timed:
    """How long the main thread stands in `traceback`, by looks at it."""

    def __init__(self) -> None:
        self.looks = self.inside = 0
        self._main, self._ended = threading.main_thread().ident, threading.Event()
        self._is_looking = False
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def of(self, is_looking: bool) -> None:
        self._is_looking = is_looking

    def end(self) -> float:
        self._ended.set()
        self._thread.join()
        return self.inside / max(self.looks, 1)

    def _look(self) -> None:
        while not self._ended.wait(0.003):
            if not self._is_looking:
                continue
            frame = sys._current_frames().get(self._main or 0)
            self.looks += 1
            while frame is not None:
                if frame.f_code.co_filename == traceback.__file__:
                    self.inside += 1
                    break
                frame = frame.f_back


def measure(model: nn.Module, data: torch.Tensor) -> dict[str, float]:
    times: dict[tuple[str, bool], list[float]] = {(part, on): [] for part in ("forward", "backward") for on in (False, True)}
    looks = Timed()
    for block in range(BLOCKS):
        on = bool(block % 2)
        with torch.autograd.set_detect_anomaly(on):
            passes: dict[str, list[float]] = {"forward": [], "backward": []}
            for _ in range(PASSES):
                model.zero_grad()
                begin = time.perf_counter()
                looks.of(on)
                loss = model(data).square().mean()
                looks.of(False)
                middle = time.perf_counter()
                loss.backward()
                passes["forward"].append(middle - begin)
                passes["backward"].append(time.perf_counter() - middle)
        for part, values in passes.items():
            # The first ones of a block are after the other kind.
            times[part, on].append(statistics.median(values[2:]))
    size = graph_size(model(data).square().mean()) or {"nodes": 0}
    median = {key: statistics.median(values) * 1e3 for key, values in times.items()}
    return {
        "nodes": size["nodes"],
        "forward": median["forward", False],
        "forward on": median["forward", True],
        "traceback": looks.end() * median["forward", True],
        "backward": median["backward", False],
        "backward on": median["backward", True],
    }


def main() -> None:
    print(f"{'model':16} {'nodes':>5} {'fwd ms':>8} {'on':>8} {'in traceback':>12} {'bwd ms':>8} {'on':>8} {'us/node':>8} {'gain':>6}")
    for name, make in MODELS.items():
        torch.manual_seed(0)
        found = measure(*make())
        more = (found["backward on"] - found["backward"]) * 1e3 / found["nodes"]
        gain = (found["forward on"] + found["backward on"]) / (found["forward"] + found["backward"])
        print(
            f"{name:16} {found['nodes']:5.0f} {found['forward']:8.2f} {found['forward on']:8.2f} {found['traceback']:12.2f} "
            f"{found['backward']:8.2f} {found['backward on']:8.2f} {more:8.1f} {gain:6.2f}"
        )


if __name__ == "__main__":
    main()
