"""A loop that a script has written out after the update, without a function around it."""

from __future__ import annotations

import json

import pytest

from launching import Workplace

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

TRAIN = """
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
data = TensorDataset(torch.randn(1600, 64), torch.randint(0, 10, (1600,)))
model = torch.nn.Linear(64, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
right = 0
for epoch in range(12):
    for inputs, targets in DataLoader(data, batch_size=64):
        optimizer.zero_grad()
        outputs = model(inputs)
        torch.nn.functional.cross_entropy(outputs, targets).backward()
        optimizer.step()
        for i in range(len(inputs)):
            best = 0
            for k in range(10):
                if outputs[i, k] > outputs[i, best]:
                    best = k
            right += int(best == targets[i])
print(right)
"""


def test_the_lines_of_a_written_out_loop_are_one_part_and_may_be_vectorised(work: Workplace) -> None:
    work.write("train.py", TRAIN)
    target = work.runs.parent / "report.json"

    ended = work.run("train.py", options=("--json", str(target)))

    assert ended.code == 0, ended.err
    report = json.loads(target.read_text())
    finding = report["findings"][0]
    assert (report["verdict"]["state"], finding["rule"]) == ("bottleneck", "slow-callback"), report["verdict"]["summary"]
    assert finding["title"].startswith("train.py:16-21 run on the training thread"), finding["title"]
    assert finding["fixes"][0]["text"] == "write the loop in lines 16-21 as operations on whole tensors or arrays"
