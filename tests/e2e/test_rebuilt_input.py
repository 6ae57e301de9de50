"""What a script builds anew for its loader between epochs is input's work, wherever the line stands, and what else it does there is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from launching import Workplace
from recorded import Server, run_script
from slowstep.record.timing.tracebacks import PACKAGE

# What is planted is a sleep between epochs of quick steps.
TRAINING = """\
import sys
import time
import torch
from torch.utils.data import DataLoader, Dataset, Sampler, Subset

how = sys.argv[1]
torch.set_num_threads(1)

class Numbers(Dataset):
    def __len__(self):
        return 160
    def __getitem__(self, index):
        return torch.full((64,), float(index))
    def resample(self):
        time.sleep(0.3)
    def describe(self):
        time.sleep(0.3)

class Balanced(Sampler):
    def __init__(self):
        if how == "sampler":
            time.sleep(0.3)
    def __len__(self):
        return 160
    def __iter__(self):
        return iter(range(160))

def weigh():
    time.sleep(0.3)

def make_loader(sampler):
    if how == "function":
        weigh()
    return DataLoader(Subset(data, range(160)), batch_size=8, sampler=sampler)

def log_epoch():
    time.sleep(0.3)
    return len(loader.dataset)

data = Numbers()
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for epoch in range(12):
    if how == "data set":
        data.resample()
    loader = make_loader(Balanced())
    for step, inputs in enumerate(loader):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
        if how == "asked" and step == 10:
            data.describe()
    if how == "log":
        log_epoch()
"""


def report_on(work: Workplace, how: str) -> dict[str, Any]:
    work.write("train.py", TRAINING)
    ended = work.run("train.py", how)
    assert ended.code == 0, ended.err
    report: dict[str, Any] = json.loads((work.recording() / "report.json").read_text())
    return report


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "stage", "rule", "function"),
    [
        pytest.param("sampler", "preprocess", "rebuilt-input", "Balanced.__init__", marks=pytest.mark.nightly),
        ("function", "preprocess", "rebuilt-input", "make_loader"),
        ("data set", "preprocess", "rebuilt-input", "Numbers.resample"),
        pytest.param("log", "output", "slow-callback", "log_epoch", marks=pytest.mark.nightly),
        pytest.param("asked", "output", "slow-callback", "Numbers.describe", marks=pytest.mark.nightly),
    ],
)
def test_what_is_built_for_the_loader_between_epochs_is_inputs(work: Workplace, how: str, stage: str, rule: str, function: str) -> None:
    report = report_on(work, how)

    assert [report["verdict"][key] for key in ("stage", "rule")] == [stage, rule]
    assert function in report["findings"][0]["title"]


MADE = """
import torch
from torch.utils.data import TensorDataset
from {module} import {loader}

def make(size):
    return {loader}(TensorDataset(torch.zeros(8, 4)), batch_size=size)

def prepare():
    return make(4)

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
loader = prepare()
for epoch in range(2):
    for inputs, in loader:
        optimizer.zero_grad()
        model(inputs).mean().backward()
        optimizer.step()
make(-1)
"""


@pytest.mark.parametrize(
    ("module", "loader"),
    [("torch.utils.data", "DataLoader"), pytest.param("torchdata.stateful_dataloader", "StatefulDataLoader", marks=pytest.mark.slow)],
)
def test_who_makes_a_loader_is_noted_once_and_its_errors_pass_as_they_are(server: Server, tmp_path: Path, module: str, loader: str) -> None:
    if module.startswith("torchdata"):
        pytest.importorskip(module)
    ran = run_script(server, tmp_path, MADE.replace("{module}", module).replace("{loader}", loader))

    assert ran.code == 1
    assert "ValueError: batch_size" in ran.err
    assert PACKAGE not in ran.err
    first, second = ran.trainer.noted("iterator")
    assert [name for _, name, _ in first["made_in"]][:2] == ["make", "prepare"]
    assert second["made_in"] is None
    assert ran.trainer.faults == {}
