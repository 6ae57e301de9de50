"""A training that keeps lists of numbers: what Python's garbage collector takes of it is charged to the collector, and named."""

from __future__ import annotations

import json

import pytest

from launching import Workplace

KEEPS_LISTS = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.zeros(1200, 8), torch.zeros(1200, 1)), batch_size=8)
history = []
for inputs, targets in loader:
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(inputs), targets).backward()
    optimizer.step()
    history.append([[0.0] * 1000 for _ in range(100)])
"""


@pytest.mark.slow
def test_what_lists_that_are_kept_cost_is_charged_to_the_collector_and_not_to_the_collate(work: Workplace) -> None:
    work.write("train.py", KEEPS_LISTS)
    ended = work.run("train.py")

    report = json.loads((work.recording() / "report.json").read_text())
    assert ended.code == 0, ended.err
    assert "garbage-collection" in [finding["rule"] for finding in report["findings"]], report["verdict"]["summary"]
    assert report["verdict"]["rule"] != "slow-collate"
    shares = {part["name"]: part["share"] for row in report["ledger"] for part in row["parts"]}
    assert shares["garbage collection"] > shares.get("collate", 0.0)
