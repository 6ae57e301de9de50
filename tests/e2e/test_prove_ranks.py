"""`slowstep prove` and a job of two ranks: both are switched in step, and the rank that is judged is the one that the report is of."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from launching import Ended, Workplace
from slowstep.prove.stats.readings import ExperimentSteps, StepReader

pytest.importorskip("torch.distributed")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TORCHRUN = str(Path(sys.executable).with_name("torchrun"))

# Rank 0 alone saves images, after each step; rank 1 starts later or earlier.
JOB = """\
import sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

class Data(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        time.sleep(float(sys.argv[1]))
        return torch.zeros(16)

def save_images(batch):
    time.sleep(float(sys.argv[2]))

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(Data(), batch_size=4, num_workers=int(sys.argv[3 + rank]))
while True:
    for batch in loader:
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()
        if rank == 0:
            save_images(batch)
"""


def proved(work: Workplace, levers: str, *words: str) -> tuple[Ended, dict[str, Any]]:
    work.write("job.py", JOB)
    target = work.runs.parent / "report.json"
    options = ("--json", str(target), "--levers", levers, "--precision", "20%", "--budget", "12s")
    command = (TORCHRUN, "--standalone", "--nproc-per-node", "2", "job.py", *words)
    ended = work.run(*command, act="prove", options=options, limit_s=240)
    return ended, json.loads(target.read_text())


def row_of(report: dict[str, Any], lever: str) -> dict[str, Any]:
    return next(row for row in report["experiments"] if row["lever"] == lever)


def walked(work: Workplace) -> list[ExperimentSteps]:
    """The steps of the plan in each process that walked it, the one that is judged first."""
    process = json.loads((work.recording() / "plan.json").read_text())["process"]
    files = sorted(work.recording().glob("*.rec"), key=lambda path: not path.name.startswith(f"{process}-"))
    return [steps for path in files if len((steps := StepReader(path).read()).ns)]


def are_in_step(one: ExperimentSteps, other: ExperimentSteps) -> bool:
    """Whether each step of both was of the same block, from the first block on and up to where they were ended."""
    # Before it, either may have met the plan first.
    walks = [list(zip(each.block.tolist(), each.settling.tolist(), strict=True)) for each in (one, other)]
    walks = [[step for step in walk if step[0] >= 0] for walk in walks]
    many = min(map(len, walks))
    return many > 0 and walks[0][:many] == walks[1][:many]


@pytest.mark.nightly
def test_what_rank_0_alone_does_is_proved_by_its_own_lever(work: Workplace) -> None:
    _, report = proved(work, "stub=__main__:save_images", "0", "0.02", "0", "0")

    row = row_of(report, "stub=__main__:save_images")
    assert row["verdict"] == "proved"
    assert row["effect"] > 0
    first, second = walked(work)
    assert are_in_step(first, second)


def test_the_input_of_all_ranks_is_mocked_together(work: Workplace) -> None:
    _, report = proved(work, "mock-loader", "0.005", "0", "0", "0")

    assert row_of(report, "mock-loader")["verdict"] == "proved"
    assert are_in_step(*walked(work))


@pytest.mark.nightly
def test_a_lever_that_one_rank_cannot_have_is_not_tried(work: Workplace) -> None:
    _, report = proved(work, "workers=1", "0.005", "0", "0", "1")

    row = row_of(report, "workers=1")
    assert (row["state"], row["verdict"]) == ("not applicable", None)
    assert "another rank" in row["reason"] or "already" in row["reason"]
