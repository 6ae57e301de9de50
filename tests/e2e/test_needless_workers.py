"""Data in memory behind a loader's workers: they cost more than they bring, and without them nothing is said of it."""

from __future__ import annotations

import pytest

from launching import Workplace

IN_MEMORY = """\
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
data = TensorDataset(torch.randn(6_000, 64), torch.randint(0, 10, (6_000,)))
loader = DataLoader(data, 4, num_workers=int(sys.argv[1]))
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for inputs, labels in loader:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()
"""


# What workers cost, and what a batch without them, is of the size of what others take of a busy machine.
@pytest.mark.nightly
@pytest.mark.parametrize("workers", [0, 2])
def test_workers_that_cost_more_than_they_bring_are_named(work: Workplace, workers: int) -> None:
    work.write("train.py", IN_MEMORY)

    report = work.report("train.py", str(workers))

    named = [finding for finding in report["findings"] if finding["rule"] == "needless-workers"]
    assert bool(named) == bool(workers), report["verdict"]["summary"]
    assert all(finding["fixes"][0]["lever"] == "workers=0" for finding in named)
