"""The training that `overhead.py` runs under each tool: an empty step, or one of about 20 ms. It times itself.

python overhead_loop.py --tool TOOL --step empty|20ms --steps N --result FILE [--batch N] [--alive FIFO]
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import json
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

StepContext = Callable[[torch.nn.Module], AbstractContextManager[Any]]
# Steps between two readings of the clocks, so that reading them costs nothing.
BLOCK = {"empty": 50, "20ms": 1}


def tools(name: str) -> tuple[AbstractContextManager[Any], StepContext]:
    """(what goes around the loop, what goes around each step), as the tool's own first page says."""
    nothing: StepContext = lambda model: contextlib.nullcontext()  # noqa: E731
    if name == "torch.profiler":
        return torch.profiler.profile(), nothing
    if name == "cProfile":
        return cProfile.Profile(), nothing
    if name == "traceml-ai":
        import traceml_ai

        traceml_ai.init(mode="auto")
        return contextlib.nullcontext(), traceml_ai.trace_step
    if name == "gpuprof":
        import gpuprof

        return gpuprof.profile("overhead"), nothing
    return contextlib.nullcontext(), nothing


def make(step: str, steps: int, batch: int = 4) -> tuple[torch.nn.Module, DataLoader[Any]]:
    """The smallest training there is; or a perceptron whose batches a worker makes, as large as takes 20 ms (`overhead_step.py`)."""
    width = 8 if step == "empty" else 768
    samples = batch * min(steps, 2000)
    data = TensorDataset(torch.zeros(samples, width)) if step == "empty" else TensorDataset(torch.randn(batch, width))
    model = torch.nn.Linear(width, 1)
    if step == "empty":
        return model, DataLoader(data, batch_size=batch)
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(2)], model)
    again = torch.randint(0, batch, (samples,)).tolist()
    return model, DataLoader(data, batch_size=batch, sampler=again, num_workers=1, persistent_workers=True)


def train(model: torch.nn.Module, loader: DataLoader[Any], *, steps: int, block: int, around: StepContext) -> list[tuple[int, int]]:
    """(wall, CPU time of this thread) in ns after each block of steps."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    read, done = [], 0
    while True:
        for (inputs,) in loader:
            if done % block == 0:
                read.append((time.perf_counter_ns(), time.thread_time_ns()))
            if done == steps:
                return read
            with around(model):
                optimizer.zero_grad()
                loss = model(inputs.to("cpu")).pow(2).mean()
                loss.backward()
                optimizer.step()
                loss.item()
            done += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", default="nothing")
    parser.add_argument("--step", choices=BLOCK, default="empty")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--result", type=Path, required=True)
    parser.add_argument("--alive", help="a FIFO, held open until this process is gone")
    arguments = parser.parse_args()
    if arguments.alive:
        os.open(arguments.alive, os.O_WRONLY)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    block = BLOCK[arguments.step]
    model, loader = make(arguments.step, arguments.steps, arguments.batch)
    outer, around = tools(arguments.tool)
    with outer:
        read = train(model, loader, steps=arguments.steps, block=block, around=around)
    arguments.result.write_text(json.dumps({"block": block, "wall_ns": [w for w, _ in read], "cpu_ns": [c for _, c in read]}))


if __name__ == "__main__":
    main()
