"""What the hooks add to an empty step, in one process: they are taken away and put back between blocks of steps.

Processes differ by more than the hooks cost (where their memory lies, who shares the cores), so one process is compared with itself. To be
run by `slowstep run`, as `overhead.py` does: sampler and launcher go on in both kinds of blocks. The hooks that are put back are those that
were taken away: installed anew, they would do in each block what a training does once (describe its optimizer, time its first calls and
count its lines).

slowstep run overhead_toggle.py --pairs N --result FILE
"""

from __future__ import annotations

import argparse
import gc
import inspect
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from overhead_loop import make

from slowstep.record.active import active
from slowstep.record.recorder import Recorder

# Steps after a switch that are not counted, and those that are: four times as many as pass between two marks. In blocks of 250 steps, what
# is due every 50 ms fell into the steps that are not counted.
SETTLING, COUNTED = 50, 1000


class Hooks:
    """All that the hooks of this process have changed in torch, to be put back and taken away."""

    def __init__(self, recorder: Recorder) -> None:
        optimizers = sys.modules["torch.optim.optimizer"]
        self._before, self._after = vars(optimizers)["_global_optimizer_pre_hooks"], vars(optimizers)["_global_optimizer_post_hooks"]
        on, self._on = attributes(), self._called()
        for undos in (recorder.undos, recorder.optimizer_undos):
            while undos:
                undos.pop()()
        off, self._off = attributes(), self._called()
        self._changed = [(*place, value, off.get(place)) for place, value in on.items() if off.get(place) is not value]
        if not self._changed or self._on == self._off:
            raise SystemExit("no hooks are installed")

    def _called(self) -> tuple[dict[Any, Any], dict[Any, Any], list[Any]]:
        return dict(self._before), dict(self._after), list(gc.callbacks)

    def switch(self, on: bool) -> None:
        for owner, name, ours, original in self._changed:
            if on:
                setattr(owner, name, ours)
            elif original is None:
                # What is inherited.
                delattr(owner, name)
            else:
                setattr(owner, name, original)
        before, after, gc.callbacks[:] = self._on if on else self._off
        for hooks, wanted in ((self._before, before), (self._after, after)):
            hooks.clear()
            hooks.update(wanted)


def attributes() -> dict[tuple[Any, str], Any]:
    """Those of torch's modules, and of the classes in them."""
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == "torch" and inspect.ismodule(module)]
    classes = {value for module in modules for value in vars(module).values() if inspect.isclass(value)}
    return {(owner, name): value for owner in (*modules, *classes) for name, value in list(vars(owner).items())}


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
    parser.add_argument("--pairs", type=int, default=72)
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
    hooks, pairs = Hooks(recorder), []
    for _ in range(arguments.pairs):
        pair = {}
        for on in order.sample((False, True), 2):
            hooks.switch(on)
            pair[on] = block(model, optimizer, source)
        pairs.append((pair[False], pair[True]))
    arguments.result.write_text(json.dumps(pairs[len(pairs) // 10 :]))


if __name__ == "__main__":
    main()
