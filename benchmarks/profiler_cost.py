"""What torch.profiler adds to the host, per event that it records: operators without and with shapes, and Python functions.

Each workload runs in turns with and without a profiler, one core; the difference of the median pass is divided by the events that the trace
holds of it. After a pause, as of a step that waits for input, caches are cold, those of the profiler too. Prints a table.
The constants in `slowstep.calibration` come from here.
"""

from __future__ import annotations

import bisect
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from machine import describe, in_words
from paired import estimate
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

ROUNDS, PASSES, SETTLE = 7, 40, 8
PAUSE_S = 0.01
MODES: dict[str, dict[str, Any] | None] = {
    "none": None,
    "operators": {},
    "with shapes": {"record_shapes": True},
    "with shapes and stacks": {"record_shapes": True, "with_stack": True},
}
MARK = "measured pass"
OPERATOR_KINDS = ("cpu_op", "user_annotation")


def small_operations() -> Callable[[], None]:
    data = torch.ones(4)

    def once() -> None:
        for _ in range(200):
            data + 1

    return once


def perceptron(width: int) -> Callable[[], None]:
    model = nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(8)])
    return training(model, torch.rand(16, width))


def transformer() -> Callable[[], None]:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 2, 64, batch_first=True), 2)
    return training(model, torch.rand(4, 8, 32))


def training(model: nn.Module, batch: torch.Tensor) -> Callable[[], None]:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, foreach=False)

    def once() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return once


def python_calls() -> Callable[[], None]:
    def leaf(value: int) -> int:
        return value + 1

    def once() -> None:
        value = 0
        for _ in range(500):
            value = leaf(value)

    return once


WORKLOADS = {
    "small operations": small_operations,
    "perceptron 32": lambda: perceptron(32),
    "perceptron 32 paused": lambda: perceptron(32),
    "perceptron 256": lambda: perceptron(256),
    "perceptron 512": lambda: perceptron(512),
    "transformer 32": transformer,
    "Python calls": python_calls,
}


def one_run(once: Callable[[], None], options: dict[str, Any] | None, pause_s: float) -> tuple[float, dict[str, float]]:
    """Median seconds of a pass, and the events of each kind that the trace holds of a pass."""
    times = []
    recorder = nullcontext() if options is None else profile(activities=[ProfilerActivity.CPU], **options)
    with recorder:
        for _ in range(SETTLE + PASSES):
            time.sleep(pause_s)
            with record_function(MARK) if options is not None else nullcontext():
                begin = time.perf_counter()
                once()
                times.append(time.perf_counter() - begin)
    return statistics.median(times[SETTLE:]), {} if options is None else events(recorder)


def events(recorder: Any) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        recorder.export_chrome_trace(str(path))
        rows = [row for row in json.loads(path.read_text())["traceEvents"] if row.get("ph") == "X"]
    marks = [(row["ts"], row["ts"] + row["dur"]) for row in rows if row["name"] == MARK][SETTLE:]
    inside = [row["cat"] for row in rows if row["name"] != MARK and within(row["ts"], marks)]
    operators = sum(inside.count(kind) for kind in OPERATOR_KINDS)
    return {"operators": operators / len(marks), "functions": inside.count("python_function") / len(marks)}


def within(at: float, marks: list[tuple[float, float]]) -> bool:
    place = bisect.bisect_right(marks, (at, float("inf"))) - 1
    return place >= 0 and at <= marks[place][1]


def main() -> None:
    torch.set_num_threads(1)
    print(in_words(describe()))
    print(f"{'workload':20} {'recorded':24} {'us':>8} {'times':>6} {'operators':>10} {'functions':>10} {'us an event':>22}")
    for name, make in WORKLOADS.items():
        once = make()
        found: dict[str, list[tuple[float, dict[str, float]]]] = {mode: [] for mode in MODES}
        for number in range(ROUNDS):
            for mode in list(MODES)[:: 1 if number % 2 else -1]:
                found[mode].append(one_run(once, MODES[mode], PAUSE_S if name.endswith("paused") else 0.0))
        for mode, runs in found.items():
            report(name, mode, runs, found)


def report(
    name: str, mode: str, runs: list[tuple[float, dict[str, float]]], found: dict[str, list[tuple[float, dict[str, float]]]]
) -> None:
    plain, took = [run[0] for run in found["none"]], [run[0] for run in runs]
    held = runs[-1][1]
    operators, functions = held.get("operators", 0), held.get("functions", 0)
    ratio = estimate([a / b for a, b in zip(took, plain, strict=True)])
    line = f"{name:20} {mode:24} {statistics.median(took) * 1e6:8.0f} {ratio.value:6.2f} {operators:10.0f} {functions:10.0f}"
    # Functions cost what stacks add to operators with shapes.
    stacks = mode.endswith("stacks")
    base = [run[0] for run in found["with shapes"]] if stacks else plain
    count = functions if stacks else operators
    if count:
        line += f" {estimate([(a - b) * 1e6 / count for a, b in zip(took, base, strict=True)]).shown(2):>22}"
    print(line, flush=True)


if __name__ == "__main__":
    main()
