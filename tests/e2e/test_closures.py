"""Optimizers that evaluate a closure several times for one batch: its samples are counted once, with and without a loader."""

from __future__ import annotations

import pytest

from launching import Workplace

CLOSURES = """\
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
data, classes = torch.randn(64 * 60, 16), torch.randint(0, 10, (64 * 60,))
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4, history_size=5)
loader = DataLoader(TensorDataset(data, classes), batch_size=64)
batches = loader if sys.argv[1] == "loader" else zip(data.split(64), classes.split(64))
for inputs, targets in batches:
    def closure():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        return loss
    optimizer.step(closure)
"""

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("source", ["loader", pytest.param("tensors", marks=pytest.mark.nightly)])
def test_a_closures_evaluations_are_no_further_batches(work: Workplace, source: str) -> None:
    work.write("train.py", CLOSURES)

    report = work.report("train.py", source)

    run, speed = report["run"], report["throughput"]
    assert (run["recorded_steps"], run["batch_size"], run["batches_per_step"]) == (60, 64, 1)
    assert speed["samples_per_s"] == pytest.approx(64 * speed["steps_per_s"])
