"""One training, with and without each of several problems; times both in turns and traces the one with the problem.

Run by `replay.py` in a process of its own: `python replay_pairs.py PAIR ROUNDS FOLDER`. Writes FOLDER/round-N.json.gz (a trace) for each
round, and FOLDER/times.json: for each round the median seconds of a step with and without the problem, neither of them profiled.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.utils.data import DataLoader, Dataset

from slowstep.analyses.replay import scenarios

BATCH = 64
# Steps of a block; the first are not timed: workers start, allocators fill, clocks rise.
SETTLE, TIMED, TRACED = 4, 16, 8
IN_A_ROW = 10


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One problem: the scenario that takes it away, the training's steps with and without it, and the device that it needs."""

    scenario: str
    steps: Callable[[bool], Iterator[None]]
    device: str = "cpu"
    in_turns: bool = True


class Samples(Dataset[torch.Tensor]):
    def __init__(self, *, sleep_s: float = 0.0, burn: int = 0) -> None:
        self.sleep_s, self.burn = sleep_s, burn
        self.noise = torch.rand(256, 256)

    def __len__(self) -> int:
        return BATCH * 1000

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.sleep_s:
            time.sleep(self.sleep_s)
        sample = self.noise.view(-1)[:512]
        for _ in range(self.burn):
            sample = torch.sort(self.noise.view(-1)[:512] + index).values
        return sample


def network(width: int, layers: int, device: str) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(layers)]
    model = nn.Sequential(*blocks).to(device)
    return model, torch.optim.SGD(model.parameters(), lr=1e-3)


def update(model: nn.Module, optimizer: torch.optim.Optimizer, batch: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss: torch.Tensor = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    return loss


def loading(problem: Samples, workers: int = 0) -> Callable[[bool], Iterator[None]]:
    """Without the problem each batch is ready when it is asked for: it was received before."""

    def steps(with_problem: bool) -> Iterator[None]:
        model, optimizer = network(512, 8, "cpu")
        ready = itertools.repeat(torch.rand(BATCH, 512))
        for batch in DataLoader(problem, batch_size=BATCH, num_workers=workers) if with_problem else ready:
            update(model, optimizer, batch)
            yield

    return steps


def after_each(action: Callable[[nn.Module], None], name: str) -> Callable[[bool], Iterator[None]]:
    def steps(with_problem: bool) -> Iterator[None]:
        model, optimizer = network(512, 8, "cpu")
        for batch in DataLoader(Samples(), batch_size=BATCH):
            update(model, optimizer, batch)
            if with_problem:
                with record_function(name):
                    action(model)
            yield

    return steps


def sleep(_: nn.Module) -> None:
    time.sleep(0.015)


def save(model: nn.Module) -> None:
    with TemporaryDirectory() as folder:
        for copy in range(3):
            torch.save(model.state_dict(), Path(folder) / f"{copy}.pt")


def validate(model: nn.Module) -> None:
    with torch.no_grad():
        for _ in range(4):
            model(torch.zeros(BATCH, 512))


def on_device(
    body: Callable[[bool, nn.Module, torch.optim.Optimizer, int], None], width: int, layers: int
) -> Callable[[bool], Iterator[None]]:
    def steps(with_problem: bool) -> Iterator[None]:
        model, optimizer = network(width, layers, "cuda")
        number = 0
        while True:
            body(with_problem, model, optimizer, number)
            number += 1
            yield

    return steps


def reading_back(with_problem: bool, model: nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
    loss = update(model, optimizer, torch.ones(256, 2048, device="cuda"))
    if with_problem:
        loss.item()
    # What the host does beside: hidden where it does not wait for the device first.
    end = time.perf_counter() + 0.002
    while time.perf_counter() < end:
        pass


def synchronizing(with_problem: bool, model: nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
    data = torch.ones(256, 2048, device="cuda")
    for layer in model:  # type: ignore[attr-defined]
        data = layer(data)
        if with_problem:
            torch.cuda.synchronize()
    optimizer.zero_grad()
    data.square().mean().backward()
    optimizer.step()


PAGEABLE = torch.zeros(8192, 2048)
PINNED: list[torch.Tensor] = []


def copying_pageable(with_problem: bool, model: nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
    if not PINNED:
        PINNED.append(PAGEABLE.pin_memory())
    source = PAGEABLE if with_problem else PINNED[0]
    update(model, optimizer, source.to("cuda", non_blocking=not with_problem)[:256])


def full_precision(with_problem: bool, model: nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
    data = torch.ones(8192, 2048, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=not with_problem):
        update(model, optimizer, data)


def without_tf32(with_problem: bool, model: nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
    torch.backends.cuda.matmul.allow_tf32 = not with_problem
    update(model, optimizer, torch.ones(8192, 2048, device="cuda"))
    torch.backends.cuda.matmul.allow_tf32 = False


def allocating(with_problem: bool, model: nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
    update(model, optimizer, torch.ones(4096, 2048, device="cuda"))
    if with_problem:
        # What is given back has to be asked of the driver again in the next step.
        torch.cuda.empty_cache()


def double(with_problem: bool, model: nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
    kind = torch.float64 if with_problem else torch.float32
    update(model.to(kind), optimizer, torch.ones(4096, 2048, device="cuda", dtype=kind))


GRAPHS: dict[int, torch.cuda.CUDAGraph] = {}


def launching(with_problem: bool, model: nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
    data = torch.ones(8, 256, device="cuda")
    if with_problem:
        update(model, optimizer, data)
        return
    if id(model) not in GRAPHS:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                update(model, optimizer, data)
        torch.cuda.current_stream().wait_stream(side)
        GRAPHS[id(model)] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(GRAPHS[id(model)]):
            update(model, optimizer, torch.ones(8, 256, device="cuda"))
    GRAPHS[id(model)].replay()


PAIRS = {
    "slow-dataset": Pair(scenario=scenarios.NO_INPUT_WAIT, steps=loading(Samples(sleep_s=0.0003))),
    "decoding": Pair(scenario=scenarios.NO_INPUT_WAIT, steps=loading(Samples(burn=12))),
    "one-worker": Pair(scenario=scenarios.NO_INPUT_WAIT, steps=loading(Samples(sleep_s=0.0008), workers=1), in_turns=False),
    "callback": Pair(scenario=scenarios.NO_CALLBACKS, steps=after_each(sleep, "[Callback]SlowMetrics.on_train_batch_end")),
    "validation": Pair(scenario=scenarios.NO_CALLBACKS, steps=after_each(validate, "validation")),
    "checkpoint": Pair(scenario=scenarios.NO_WRITES, steps=after_each(save, "save_checkpoint")),
    "no-problem": Pair(scenario=scenarios.NO_CALLBACKS, steps=after_each(lambda model: None, "[Callback]Nothing.on_train_batch_end")),
    "read-back": Pair(scenario=scenarios.NO_READBACKS, steps=on_device(reading_back, 2048, 12), device="cuda"),
    "synchronize": Pair(scenario=scenarios.NO_SYNCHRONIZATION, steps=on_device(synchronizing, 2048, 12), device="cuda"),
    "pageable": Pair(scenario=scenarios.COPIES_PINNED, steps=on_device(copying_pageable, 2048, 4), device="cuda"),
    "float32": Pair(scenario=scenarios.HALF_PRECISION, steps=on_device(full_precision, 2048, 8), device="cuda"),
    # Of products in TF32 that in 16 bits is an upper bound, and no more.
    "tf32": Pair(scenario=scenarios.HALF_PRECISION, steps=on_device(without_tf32, 2048, 8), device="cuda"),
    "allocations": Pair(scenario=scenarios.NO_ALLOCATOR_CALLS, steps=on_device(allocating, 2048, 8), device="cuda"),
    "float64": Pair(scenario=scenarios.SINGLE_PRECISION, steps=on_device(double, 2048, 8), device="cuda"),
    "launches": Pair(scenario=scenarios.LAUNCHES_FREE, steps=on_device(launching, 256, 60), device="cuda"),
}


def timed(pair: Pair) -> dict[bool, float]:
    """Median seconds of a step with and without the problem; on a device from empty queue to empty queue.

    The two take turns step by step, so that load falls on both alike; where one works ahead in the background, block by block.
    """
    times: dict[bool, list[float]] = {True: [], False: []}
    if pair.in_turns:
        both = {problem: pair.steps(problem) for problem in (True, False)}
        for number in range(SETTLE + TIMED):
            for problem in (True, False) if number % 2 else (False, True):
                times[problem].append(step_s(pair, both[problem]))
    else:
        for problem in (True, False):
            steps = pair.steps(problem)
            times[problem] = [step_s(pair, steps) for _ in range(SETTLE + TIMED)]
    return {problem: statistics.median(each[SETTLE:]) for problem, each in times.items()}


def step_s(pair: Pair, steps: Iterator[None]) -> float:
    if pair.device == "cpu":
        begin = time.perf_counter()
        next(steps)
        return time.perf_counter() - begin
    torch.cuda.synchronize()
    begin = time.perf_counter()
    # Steps in a row: a host that runs ahead shall do so.
    for _ in range(IN_A_ROW):
        next(steps)
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / IN_A_ROW


def traced(pair: Pair, path: Path) -> None:
    steps = pair.steps(True)
    kinds = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if pair.device == "cuda" else [])
    plan = schedule(wait=0, warmup=SETTLE, active=TRACED, repeat=1)
    with profile(
        activities=kinds, schedule=plan, record_shapes=True, on_trace_ready=lambda p: p.export_chrome_trace(str(path))
    ) as profiler:
        for _ in range(SETTLE + TRACED):
            next(steps)
            profiler.step()


def main(name: str, rounds: int, folder: Path) -> None:
    torch.set_num_threads(1)
    pair = PAIRS[name]
    times = []
    for number in range(rounds):
        seconds = timed(pair)
        traced(pair, folder / f"round-{number}.json.gz")
        times.append({"with": seconds[True], "without": seconds[False]})
    (folder / "times.json").write_text(json.dumps(times))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
