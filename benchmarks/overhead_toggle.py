"""What the hooks add to an empty step, in one process: they are taken away and installed again between blocks of steps.

Processes differ by more than the hooks cost (where their memory lies, who shares the cores), so one process is compared with itself. To be
run by `slowstep run`, as `overhead.py` does: sampler and launcher go on in both kinds of blocks.

slowstep run overhead_toggle.py --pairs N --result FILE
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from overhead_loop import make

from slowstep.record import active
from slowstep.record.activation import discovered, install_one
from slowstep.record.recorder import Recorder

# Steps after a switch that are not counted, and those that are: four times as many as pass between two marks. In blocks of 250 steps, what
# is due every 50 ms fell into the steps that are not counted.
SETTLING, COUNTED = 50, 1000


def switch(recorder: Recorder, on: bool) -> None:
    for undos in (recorder.undos, recorder.optimizer_undos):
        while undos:
            undos.pop()()
    if on:
        for hook in discovered():
            if hook.module in sys.modules:
                install_one(recorder, hook)


def batches(loader: Any) -> Iterator[Any]:
    while True:
        for (inputs,) in loader:
            yield inputs


def block(model: Any, optimizer: Any, source: Iterator[Any]) -> float:
    """ns per step."""
    began_ns = 0
    for step in range(SETTLING + COUNTED):
        if step == SETTLING:
            began_ns = time.perf_counter_ns()
        inputs = next(source)
        optimizer.zero_grad()
        loss = model(inputs.to("cpu")).pow(2).mean()
        loss.backward()
        optimizer.step()
        loss.item()
    return (time.perf_counter_ns() - began_ns) / COUNTED


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=36)
    parser.add_argument("--result", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    recorder = active()
    if recorder is None:
        raise SystemExit("to be run by `slowstep run`")
    model, loader = make("empty", 2000)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    source, order = batches(loader), random.Random(0)
    pairs = []
    for _ in range(arguments.pairs):
        pair = {}
        for on in order.sample((False, True), 2):
            switch(recorder, on)
            pair[on] = block(model, optimizer, source)
        pairs.append((pair[False], pair[True]))
    arguments.result.write_text(json.dumps(pairs[len(pairs) // 10 :]))


if __name__ == "__main__":
    main()
