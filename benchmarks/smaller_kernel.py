"""What a convolution takes, with its backward, with a kernel of 3 in each direction in place of a larger one.

Prints a table: how much of the products is left, and how much of the time; no options, some minutes. `slowstep.calibration` holds usual
values and bounds of what it shows. The two kernels take turns, so that both meet the same load of the machine.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

SMALL = 3
KERNELS = (5, 7, 9, 11, 15)
# Batch, channels in and out, and side of a picture, and how many dimensions it has.
SHAPES = (
    (8, 24, 24, 56, 2),
    (16, 32, 32, 32, 2),
    (4, 64, 64, 28, 2),
    (2, 128, 128, 14, 2),
    (8, 8, 8, 64, 2),
    (4, 16, 64, 48, 2),
    (2, 8, 16, 16, 3),
)
WARMUP, ROUNDS = 2, 7


def step_of(shape: tuple[int, ...], kernel: int) -> Callable[[], None]:
    batch, channels, given, side, dimensions = shape
    layer = (nn.Conv2d if dimensions == 2 else nn.Conv3d)(channels, given, kernel, padding=kernel // 2)
    x = torch.randn(batch, channels, *(side,) * dimensions, requires_grad=True)

    def step() -> None:
        layer(x).sum().backward()

    return step


def seconds(step: Callable[[], None]) -> float:
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def main() -> None:
    print(f"{'threads':>7} {'shape':28} {'kernel':>6} {'products left':>13} {'time left':>9} {'ms':>8}")
    for threads in (1, torch.get_num_threads()):
        torch.set_num_threads(threads)
        for shape in SHAPES:
            for kernel in KERNELS:
                large, small = step_of(shape, kernel), step_of(shape, SMALL)
                for _ in range(WARMUP):
                    large(), small()
                pairs = [(seconds(large), seconds(small)) for _ in range(ROUNDS)]
                left = statistics.median(b / a for a, b in pairs)
                products = (SMALL / kernel) ** shape[-1]
                print(
                    f"{threads:7} {shape!s:28} {kernel:6} {products:13.3f} {left:9.3f} {statistics.median(a for a, _ in pairs) * 1e3:8.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
