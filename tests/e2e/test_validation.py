"""Validations of a loop's own, without a loader and under any name."""

from __future__ import annotations

import json

import pytest

from launching import Workplace

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

# So many steps that a machine on which they take 1 ms is seen in some ten stacks between updates, too.
TRAIN = """
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
numbers = torch.randn(4096, 256)
model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

def get_batch():
    return numbers[torch.randint(0, 4096, (64,))]

@torch.no_grad()
def both_losses():
    model.MODE()
    losses = torch.zeros(40)
    for k in range(40):
        batch = get_batch()
        losses[k] = (model(batch) - batch).pow(2).mean()
    model.train()
    return losses.mean()

for step in range(1600):
    if step % 20 == 0:
        both_losses()
    batch = get_batch()
    loss = (model(batch) - batch).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("mode", "stage"),
    [
        pytest.param("eval", "output", id="in evaluation mode"),
        pytest.param("train", "preprocess", id="as a roll-out is", marks=pytest.mark.nightly),
    ],
)
def test_repeated_forwards_in_evaluation_mode_are_a_validation(work: Workplace, mode: str, stage: str) -> None:
    work.write("train.py", TRAIN.replace("MODE", mode))
    target = work.runs.parent / "report.json"

    ended = work.run("train.py", options=("--json", str(target)))

    assert ended.code == 0, ended.err
    report = json.loads(target.read_text())
    ledger = {row["stage"]: row["share"] for row in report["ledger"]}
    assert ledger[stage] > 0.2, ledger
    assert ledger["output" if stage == "preprocess" else "preprocess"] < ledger[stage] / 2, ledger
    assert report["verdict"]["summary"].startswith("validation every 20 steps takes ") is (stage == "output"), report["verdict"]
