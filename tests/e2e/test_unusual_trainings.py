"""Trainings that are stopped, have more workers than cores, change or evaluate their training data, or are in a debug mode."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from launching import Ended, Workplace

pytestmark = pytest.mark.slow

BASE = """\
import os
import signal
import subprocess
import time
import torch
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)

class Samples(Dataset):
    def __init__(self, length, wait_s=0.0):
        self.length, self.wait_s = length, wait_s
    def __len__(self):
        return self.length
    def __getitem__(self, index):
        time.sleep(self.wait_s)
        return torch.full((64,), index / self.length)

model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)

def fit(loader, then=lambda step: None):
    for step, inputs in enumerate(loader):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
        then(step)
"""
STOPPED = """
def stop(step):
    if step == 60:
        # Somebody else's: a stopped process does not go on by itself.
        subprocess.Popen(["sh", "-c", f"kill -STOP {os.getpid()}; sleep 4; kill -CONT {os.getpid()}"])
        time.sleep(0.5)

fit(DataLoader(Samples(16 * 200, 0.0005), batch_size=16), stop)
"""

ACCURACY = """
@torch.no_grad()
def accuracy(loader):
    for inputs in loader:
        model(inputs)

loader = DataLoader(Samples(16 * 20, 0.0005), batch_size=16)
if BEFORE:
    accuracy(loader)
for epoch in range(8):
    fit(loader)
    accuracy(loader)
"""
GRAPHS = """
def put_together(graphs):
    return torch.cat([nodes.expand(20 + number, -1) for number, nodes in enumerate(graphs)])

fit(DataLoader(Samples(16 * 100, 0.0005), batch_size=16, collate_fn=put_together))
"""


def run(work: Workplace, text: str) -> tuple[Ended, dict[str, Any]]:
    work.write("train.py", BASE + text)
    ended = work.run("train.py")
    assert ended.code == 0, ended.err
    report: dict[str, Any] = json.loads((work.recording() / "report.json").read_text())
    return ended, report


def named(report: dict[str, Any]) -> list[str]:
    return [rule for finding in report["findings"] for rule in (finding["rule"], *finding["also"])]


def test_the_time_in_which_a_training_was_stopped_is_left_out_and_said(work: Workplace) -> None:
    ended, report = run(work, STOPPED)

    assert "suspended once" in ended.err
    # Steps take some ten milliseconds: with the four seconds in one of them, their mean would be three times that.
    assert 1e3 / report["throughput"]["steps_per_s"] < 2 * report["throughput"]["step_ms"]["median"]


@pytest.mark.nightly
def test_many_more_workers_than_cores_are_all_recorded(work: Workplace) -> None:
    _, report = run(work, "fit(DataLoader(Samples(16 * 256, 0.0005), batch_size=16, num_workers=64))\n")

    assert len(list(work.recording().glob("[0-9]*.rec"))) == 1 + 64
    assert report["run"]["recorded_steps"] == 256


@pytest.mark.nightly
def test_data_that_are_changed_in_the_middle_are_one_training(work: Workplace) -> None:
    data = ("16 * 120, 0.0", "16 * 121, 0.002")
    _, report = run(work, "".join(f"fit(DataLoader(Samples({each}), batch_size=16))\n" for each in data))

    assert report["run"]["recorded_steps"] == 241
    assert "serial-loader" in named(report)
    said = next(row["remedy"] for row in report["health"] if row["name"] == "loader-changed")
    assert "at step 121 from Samples (1,920 samples, 0 workers) to Samples (1,936 samples, 0 workers)" in said


@pytest.mark.parametrize(
    "before", [pytest.param(True, id="before as well"), pytest.param(False, id="after each epoch", marks=pytest.mark.nightly)]
)
def test_a_pass_over_the_training_loader_that_trains_nothing_is_a_validation(work: Workplace, before: bool) -> None:
    _, report = run(work, ACCURACY.replace("BEFORE", str(before)))

    ledger = {row["stage"]: row["share"] for row in report["ledger"]}
    # Both kinds of passes wait as long for their samples.
    waited = ledger["read"] + ledger["preprocess"]
    assert waited > 0.2, ledger
    assert waited / 2 < ledger["output"] < 2 * waited, ledger
    assert report["run"]["batch_size"] == 16
    figures = report["throughput"]
    assert figures["samples_per_s"] == pytest.approx(16 * figures["steps_per_s"], rel=0.01)


def test_a_batch_is_as_large_as_the_loader_was_asked_to_make_it(work: Workplace) -> None:
    _, report = run(work, GRAPHS)

    assert report["run"]["batch_size"] == 16
    assert report["run"]["batch_size_from"] == "the loader's index counts, not the leading dimension"
    assert report["throughput"]["samples_per_s"] == pytest.approx(16 * report["throughput"]["steps_per_s"], rel=0.01)


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("torch.autograd.set_detect_anomaly(True)", "anomaly"),
        pytest.param("torch.use_deterministic_algorithms(True)", "deterministic", marks=pytest.mark.nightly),
    ],
)
def test_a_debug_mode_that_was_left_on_is_named(work: Workplace, mode: str, says: str) -> None:
    _, report = run(work, f"{mode}\nfit(DataLoader(Samples(16 * 400), batch_size=16))\n")

    finding = next(finding for finding in report["findings"] if finding["rule"] == "debug-mode-on")
    assert says in finding["title"]


def test_the_function_that_takes_the_start_up_is_named(work: Workplace) -> None:
    text = """
def scan():
    ends = time.monotonic() + 4
    while time.monotonic() < ends:
        sum(range(1000))

scan()
fit(DataLoader(Samples(16 * 100), batch_size=16))
"""
    _, report = run(work, text)

    seconds = {part["name"]: part["s"] for part in report["run"]["startup"]}
    assert seconds[next(name for name in seconds if name.startswith("scan (train.py:"))] > 3, seconds


COMPILED = """
compiled = torch.compile(model, backend="aot_eager")

def make_mask(rows):
    return torch.tensor([[1.0 if (row * column) % 7 else 0.0 for column in range(64)] for row in range(rows)])

def fit_compiled(loader):
    for inputs in loader:
        loss = compiled(inputs * make_mask(len(inputs))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

fit_compiled(DataLoader(Samples(600), collate_fn=lambda rows: torch.rand(256, 64)))
"""


def test_a_loop_in_python_beside_a_compiled_model_is_not_called_healthy(work: Workplace) -> None:
    _, report = run(work, COMPILED)

    reasons = {row["rule"]: row["reason"] for row in report["not_judged"]}
    assert report["verdict"]["state"] != "healthy"
    # Its caller, where the loop has kept the GIL to its end.
    assert re.search(r"most of them in (make_mask|fit_compiled) \(train\.py:\d+\)", reasons["python-between-operations"])
