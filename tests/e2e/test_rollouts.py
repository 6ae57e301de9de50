"""Steps of several forwards, as many as an episode is long."""

from __future__ import annotations

import json

import pytest

from launching import Workplace

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

LEARNS = """
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
policy = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 4))
optimizer = torch.optim.Adam(policy.parameters())
for episode in range(240):
    losses = []
    # Longer and longer, as an agent learns.
    for _ in range(int(torch.randint(5, 10, ())) + episode // 2):
        state = torch.randn(16, 64)
        losses.append(policy(state).log_softmax(1)[:, 0].mean())
    optimizer.zero_grad()
    torch.stack(losses).sum().backward()
    optimizer.step()
"""


def test_episodes_that_get_longer_are_no_steps_that_grow(work: Workplace) -> None:
    work.write("train.py", LEARNS)
    target = work.runs.parent / "report.json"

    ended = work.run("train.py", options=("--json", str(target)))

    assert ended.code == 0, ended.err
    report = json.loads(target.read_text())
    assert report["verdict"]["state"] != "bottleneck"
    assert not {"growing-step-time", "unstable-step-time"} & {finding["rule"] for finding in report["findings"]}
