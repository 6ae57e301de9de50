"""The training that `overhead.py` times with and without slowstep: a perceptron as deep as makes a step so long, on the device, if any.

python steps.py --layers N --steps N --result FILE. The result: ns of each block of steps, and a digest of all losses.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from pathlib import Path

# Before torch is imported: else its matrix products may differ between runs.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

# The loss is read back once in so many steps: in between the host may run ahead of the device, as in a usual training.
BLOCK = 10
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WIDTH = 2048 if DEVICE == "cuda" else 32
BATCH = WIDTH


class Batches(Dataset[torch.Tensor]):
    """Whole batches that cost the loader's worker next to nothing."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.batch = torch.linspace(-1, 1, BATCH * WIDTH).view(BATCH, WIDTH)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.batch


def train(layers: int, steps: int) -> tuple[list[int], list[float]]:
    """ns of each block of steps, and the losses that were read back."""
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(layers)]).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    times, losses = [], []
    began = time.perf_counter_ns()
    for number, batch in enumerate(DataLoader(Batches(steps), batch_size=None, num_workers=1, pin_memory=DEVICE == "cuda")):
        loss = model(batch.to(DEVICE, non_blocking=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number % BLOCK == BLOCK - 1:
            losses.append(loss.item())
            ended = time.perf_counter_ns()
            times.append(ended - began)
            began = ended
    return times, losses


def main() -> None:
    """Train, and write what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--result", type=Path, required=True)
    arguments = parser.parse_args()
    torch.use_deterministic_algorithms(True)
    times, losses = train(arguments.layers, arguments.steps)
    digest = hashlib.sha256(json.dumps(losses).encode()).hexdigest()
    arguments.result.write_text(json.dumps({"block": BLOCK, "times_ns": times, "digest": digest}))


if __name__ == "__main__":
    main()
