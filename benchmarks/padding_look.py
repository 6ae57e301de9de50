"""What a glance at a batch for padding takes of the thread that trains: python benchmarks/padding_look.py"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor

from slowstep.frameworks.torch.inside._loader.padded import look_for_padding


def padded(rows: int, length: int) -> Tensor:
    """Sequences of half of the length and more."""
    return torch.randint(1, 1000, (rows, length)) * mask(rows, length)


def mask(rows: int, length: int) -> Tensor:
    """Of such ones."""
    return (torch.arange(length) < torch.randint(length // 2, length, (rows, 1))).long()


BATCHES: dict[str, Any] = {
    "one of 128 x 512": [padded(128, 512)],
    "ids, mask and types of 32 x 512": [padded(32, 512), mask(32, 512), torch.zeros(32, 512, dtype=torch.int64)],
    "40 features of 2048 x 32": [padded(2048, 32) for _ in range(40)],
    "64 of 128 x 512": [padded(128, 512) for _ in range(64)],
    "64 without padding": [torch.randint(0, 1000, (128, 512)) for _ in range(64)],
    "64 of zeros and ones": [mask(128, 512) for _ in range(64)],
    "one beside 63 of zeros and ones": [padded(128, 512), *(mask(128, 512) for _ in range(63))],
}


def main() -> None:
    """Print the CPU time of each, the least of five."""
    for name, batch in BATCHES.items():
        took = []
        for _ in range(5):
            began_ns = time.thread_time_ns()
            look_for_padding(batch)
            took.append(time.thread_time_ns() - began_ns)
        numbers = sum(each.numel() for each in batch)
        print(f"{name}: {min(took) / 1e6:.1f} ms, {numbers:,} numbers")


if __name__ == "__main__":
    main()
