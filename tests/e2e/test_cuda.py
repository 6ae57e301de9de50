"""Unmodified trainings on a CUDA device: host time is blamed for no more than the device idled, and graphs are captured as always."""

from __future__ import annotations

import json
from typing import Any

import pytest

from launching import Workplace

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.skipif(not torch.cuda.is_available(), reason="no accelerator here")]

# The device takes `CYCLES` for each step, and a callback 20 ms of the host's.
LOOP = """
import time
import torch
torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(6400, 64))
loader = torch.utils.data.DataLoader(data, batch_size=32)
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def draw():
    time.sleep(0.02)

def capture():
    graph, x = torch.cuda.CUDAGraph(), torch.ones(64, device="cuda")
    with torch.cuda.graph(graph):
        for _ in range(2000):
            x = x * 1.0
    graph.replay()
    return float(x.sum())

for number, (x,) in enumerate(loader):
    loss = model(x.cuda(non_blocking=True)).square().mean()
    torch.cuda._sleep(CYCLES)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    draw()
    if CAPTURES and number % 20 == 0:
        assert capture() == 64.0
print(float(loss), float(sum(p.abs().sum() for p in model.parameters())))
"""


def recorded(place: Workplace, **values: int) -> dict[str, Any]:
    """The report of a run that prints what it prints without slowstep."""
    place.write("train.py", "".join(f"{name} = {value}\n" for name, value in values.items()) + LOOP)
    plain = place.run("train.py", slowstep=False)
    ran = place.run("train.py", options=("--json", str(place.runs.parent / "report.json")))
    assert (ran.code, ran.out) == (plain.code, plain.out), ran.err
    found: dict[str, Any] = json.loads((place.runs.parent / "report.json").read_text())
    return found


def share(report: dict[str, Any], stage: str) -> float:
    return float(next(row["share"] or 0.0 for row in report["ledger"] if row["stage"] == stage))


def test_a_callback_beside_an_idle_device_holds_the_step(place: Workplace) -> None:
    assert share(recorded(place, CYCLES=1000, CAPTURES=0), "output") > 0.7


def test_a_callback_beside_a_busy_device_is_blamed_for_nothing(place: Workplace) -> None:
    report = recorded(place, CYCLES=150_000_000, CAPTURES=0)

    assert share(report, "output") < 0.05
    assert share(report, "compute") > 0.9


def test_graphs_are_captured_while_the_device_is_asked(place: Workplace) -> None:
    report = recorded(place, CYCLES=1000, CAPTURES=1)

    assert share(report, "output") > 0.3
    assert not [row for row in report["health"] if row["name"] == "recorder-fault"]
