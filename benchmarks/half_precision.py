"""How many times as long forward and backward take in 16 bits, or without oneDNN, as in float32 with it, on this processor.

    python benchmarks/half_precision.py
    ONEDNN_MAX_CPU_ISA=AVX512_CORE MKL_ENABLE_INSTRUCTIONS=AVX2 python benchmarks/half_precision.py     # as if it had no bfloat16

One thread, by its own clock; the kinds take turns. `slowstep.calibration.computing` holds usual values and bounds.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

ROUNDS, STEPS = 5, 3
Model = tuple[nn.Module, Tensor]
KINDS: dict[str, Callable[[], Any]] = {
    "float32": contextlib.nullcontext,
    "bfloat16": lambda: torch.autocast("cpu", torch.bfloat16),
    "float16": lambda: torch.autocast("cpu", torch.float16),
    "plain": contextlib.nullcontext,
}


def convolutions(channels: int) -> Model:
    widths = (3, channels, channels)
    layers = [nn.Sequential(nn.Conv2d(width, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU()) for width in widths]
    return nn.Sequential(*layers), torch.randn(8, 3, 32, 32)


def dense(width: int) -> Model:
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 8)), torch.randn(
        64, width
    )


def encoder(width: int, batch: int) -> Model:
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, dropout=0.0)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.randn(batch, 32, width)


def step_ns(model: nn.Module, x: Tensor, name: str) -> float:
    kind, torch.backends.mkldnn.enabled = KINDS[name], name != "plain"
    began = time.thread_time_ns()
    for _ in range(STEPS):
        with kind():
            loss = model(x).float().square().mean()
        loss.backward()
        model.zero_grad()
    torch.backends.mkldnn.enabled = True
    return (time.thread_time_ns() - began) / STEPS


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    models = {
        "convolutions, 16 channels": convolutions(16), "convolutions, 64 channels": convolutions(64), "dense, 256 wide": dense(256),
        "dense, 1024 wide": dense(1024), "encoder, 128 wide": encoder(128, 8), "encoder, 256 wide": encoder(256, 16),
    }  # fmt: skip
    for name, (model, x) in models.items():
        for kind in KINDS:
            step_ns(model, x, kind)
        taken = [{kind: step_ns(model, x, kind) for kind in KINDS} for _ in range(ROUNDS)]
        usual = {kind: statistics.median(each[kind] for each in taken) for kind in KINDS}
        times = ", ".join(f"{kind} {usual[kind] / usual['float32']:.2f}" for kind in KINDS)
        print(f"{name:28} {usual['float32'] / 1e6:8.2f} ms  {times}", flush=True)


if __name__ == "__main__":
    main()
