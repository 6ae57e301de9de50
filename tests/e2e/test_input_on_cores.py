"""Batches that take nothing but CPU time, made by the training thread: what is said depends on how many cores there are."""

from __future__ import annotations

import os

import pytest

from launching import Workplace

pytest.importorskip("torch")
# What halving the work gains is uncertain on a busy machine, and the verdict open then.
pytestmark = pytest.mark.nightly

TRAIN = """
import os, sys, time
if sys.argv[1] == "one":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import torch
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)

class Pictures(Dataset):
    def __len__(self):
        return 1600

    def __getitem__(self, index):
        until = time.thread_time() + 0.001
        if sys.argv[2] == "loop":
            while time.thread_time() < until:
                pass
        while time.thread_time() < until:
            sum(range(10_000))
        return torch.zeros(64), index % 4

model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(2):
    for inputs, targets in DataLoader(Pictures(), batch_size=16):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("cores", "made_by", "rule", "words"),
    [
        ("all", "operations", "serial-loader", "num_workers="),
        ("all", "loop", "slow-transform", "vectorise Pictures.__getitem__"),
        ("one", "operations", "preprocess-saturates-cpu", "halve the work"),
    ],
)
def test_making_batches_takes_most_of_the_time_and_that_is_no_healthy_training(
    work: Workplace, cores: str, made_by: str, rule: str, words: str
) -> None:
    if cores == "all" and len(os.sched_getaffinity(0)) < 2:
        pytest.skip("a worker gains nothing on one core")
    work.write("train.py", TRAIN)

    report = work.report("train.py", cores, made_by)

    assert (report["verdict"]["state"], report["verdict"]["rule"]) == ("bottleneck", rule), report["verdict"]["summary"]
    fix = report["findings"][0]["fixes"][0]["text"]
    assert words in fix
    assert "num_workers=1," not in fix
