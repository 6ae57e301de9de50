"""From an unmodified script to the verdict, where what was planted is a sleep far longer than all else in a step."""

from __future__ import annotations

import pytest

from launching import Workplace

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

TRAIN = """
import sys, time
import torch
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
problem = sys.argv[1]

class Numbers(Dataset):
    def __len__(self):
        return 4 * 80
    def __getitem__(self, index):
        if problem == "loader":
            time.sleep(0.01)
        return torch.full((8,), float(index))

def draw(outputs):
    if problem == "callback":
        time.sleep(0.04)

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for inputs in DataLoader(Numbers(), batch_size=4):
    optimizer.zero_grad()
    outputs = model(inputs)
    outputs.mean().backward()
    optimizer.step()
    draw(outputs)
"""


@pytest.mark.parametrize(
    ("problem", "rule", "stage", "named"),
    [("loader", "serial-loader", "read", "num_workers=0"), ("callback", "slow-callback", "output", "draw (train.py:")],
)
def test_what_sleeps_is_the_verdict(work: Workplace, problem: str, rule: str, stage: str, named: str) -> None:
    work.write("train.py", TRAIN)

    report = work.report("train.py", problem)

    verdict, finding = report["verdict"], report["findings"][0]
    assert (verdict["state"], verdict["rule"], verdict["stage"]) == ("bottleneck", rule, stage), verdict["summary"]
    assert named in finding["title"]
    assert 1.10 <= finding["gain"]["low"] <= finding["gain"]["predicted"]
    assert next(row["share"] for row in report["ledger"] if row["stage"] == stage) > 0.5


def test_where_nothing_was_planted_nothing_is_blamed(work: Workplace) -> None:
    work.write("train.py", TRAIN)

    report = work.report("train.py", "nothing")

    assert report["verdict"]["rule"] not in ("serial-loader", "slow-callback"), report["verdict"]["summary"]
