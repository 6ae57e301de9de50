"""An operation that holds most of the step: what it computes is said, however it is called, and not where several may be called there."""

from __future__ import annotations

from typing import Any

import pytest

from launching import Workplace

pytest.importorskip("torch")
# Some ten seconds, for there is a stack in 50 ms.
STEPS = 400
TRAIN = """
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
torch.set_num_threads(1)

{model}

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
for step in range({steps}):
    x = torch.randn({shape})
    loss = net(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LAYER = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 3, padding=1)
        self.refine = nn.Conv2d(12, 12, 11, padding=5)
        self.out = nn.Conv2d(12, 2, 1)

    def forward(self, x):
        x = self.stem(x)
        x = torch.relu(self.refine(x))
        return self.out(x)
"""
FUNCTION = """
class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(640, 640) / 25)

    def forward(self, x):
        return F.linear(x, self.weight)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.mix, self.out = nn.Linear(32, 640), Mixer(), nn.Linear(640, 4)

    def forward(self, x):
        x = self.into(x)
        x = self.mix(x)
        return self.out(x)
"""
LOOP = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Linear(32, 320), nn.Linear(320, 4)
        self.layers = nn.ModuleList(nn.Linear(320, 320) for _ in range(4))

    def forward(self, x):
        x = self.into(x)
        for layer in self.layers:
            x = layer(x)
        x = torch.tanh(x)
        return self.out(x)
"""
CONVOLVED, MULTIPLIED = 3 * 48 * 48 * 12 * 12 * 121, 512 * 640 * 640


def _finding(work: Workplace, model: str, shape: str) -> dict[str, Any]:
    work.write("train.py", TRAIN.format(model=model, shape=shape, steps=STEPS))
    report = work.report("train.py")
    return next(row for row in report["findings"] if row["rule"] == "dominant-module")


def _rows(finding: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in finding["evidence"]}


# By stacks an operation is expected to hold half of a step only where others leave the cores alone.
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("model", "shape", "called", "products"),
    [(LAYER, "3, 3, 48, 48", "self.refine (Conv2d)", CONVOLVED), (FUNCTION, "512, 32", "F.linear", MULTIPLIED)],
    ids=["a wide convolution", "a dense layer, as a function"],
)
def test_what_one_operation_computes_is_told_beside_the_rest(work: Workplace, model: str, shape: str, called: str, products: int) -> None:
    finding = _finding(work, model, shape)

    rows = _rows(finding)
    assert finding["title"].startswith(called), finding
    assert rows["its arithmetic forward"]["value"] == pytest.approx(2 * products / 1e9), finding
    assert rows["its arithmetic backward"]["value"] == pytest.approx(4 * products / 1e9), finding
    assert rows["it computes"]["value"] > 0
    assert 0.5 < rows["its share of the arithmetic"]["value"] < 1
    assert (rows["the rest of the model computes"]["value"] or 0.0) > 0
    assert "GFLOP/s, the rest" in finding["title"]


@pytest.mark.nightly
def test_of_a_loop_over_layers_nothing_is_told_but_why(work: Workplace) -> None:
    row = _rows(_finding(work, LOOP, "512, 32"))["its arithmetic"]

    assert (row["value"], row["where"]) == (None, "the line may call several operations")
