"""A training thread that sleeps inside its steps, in a line of its loop or in its model: nothing computes meanwhile."""

from __future__ import annotations

import json

import pytest

from launching import Workplace

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

TRAIN = """
import sys, time
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)

class Model(torch.nn.Linear):
    def forward(self, inputs):
        if sys.argv[1] == "model":
            time.sleep(0.012)
        return super().forward(inputs)

data = TensorDataset(torch.randn(1600, 512), torch.randint(0, 512, (1600,)))
model = Model(512, 512)
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(25):
    for inputs, targets in DataLoader(data, batch_size=64):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), targets).backward()
        if sys.argv[1] == "loop":
            time.sleep(0.012)
        optimizer.step()
"""


@pytest.mark.parametrize(("where", "line"), [("loop", 22), pytest.param("model", 11, marks=pytest.mark.nightly)])
def test_a_training_that_sleeps_in_its_steps_is_not_healthy_and_the_line_is_named(work: Workplace, where: str, line: int) -> None:
    work.write("train.py", TRAIN)
    target = work.runs.parent / "report.json"

    ended = work.run("train.py", where, options=("--json", str(target)))

    assert ended.code == 0, ended.err
    verdict = json.loads(target.read_text())["verdict"]
    assert verdict["state"] != "healthy"
    # Beside others its operations' threads may wait for cores as well; the line is the same.
    assert f"inside its steps, most of it in train.py:{line}" in verdict["summary"]
