"""How many times as long a step takes in float64 as in float32, by model and batch size, in CPU time of one core; no options.

The constants in `slowstep.calibration` hold what this prints.
"""

from __future__ import annotations

import statistics
import time

import torch
from dispatch import SLOPE_MODELS
from torch import nn

REPEATS = 25
SIZES = (1, 16)


def step_s(model: nn.Module, data: torch.Tensor) -> float:
    """Median CPU seconds of forward, backward and update."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)
    times = []
    for _ in range(REPEATS):
        begin = time.thread_time()
        optimizer.zero_grad()
        output = model(data)
        (output[0] if isinstance(output, tuple) else output).sum().backward()
        optimizer.step()
        times.append(time.thread_time() - begin)
    return statistics.median(times)


def main() -> None:
    torch.set_num_threads(1)
    ratios = []
    print(f"{'model':18} {'samples':>7} {'float32 ms':>10} {'float64 ms':>10} {'ratio':>6}")
    for name, (model, shape) in SLOPE_MODELS.items():
        for size in SIZES:
            single = step_s(model.float(), torch.randn(size, *shape))
            double = step_s(model.double(), torch.randn(size, *shape, dtype=torch.float64))
            ratios.append(double / single)
            print(f"{name:18} {size:7} {single * 1e3:10.2f} {double * 1e3:10.2f} {ratios[-1]:6.2f}")
    print(f"\nmedian {statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}")


if __name__ == "__main__":
    main()
