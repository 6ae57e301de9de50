"""A training with a Python thread of its own beside it: one that computes in Python holds it up and is named, one that waits is not."""

from __future__ import annotations

import json

import pytest

from launching import Workplace

SCORES_BESIDE = """\
import sys
import threading
import time
import torch

torch.set_num_threads(1)

def score(count):
    return sum(index % 7 for index in range(count))

def keep_scoring():
    while True:
        if sys.argv[1] == "computes":
            score(20_000)
        else:
            time.sleep(0.01)

threading.Thread(target=keep_scoring, daemon=True).start()
model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(12)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
inputs = torch.randn(64, 256)
for step in range(120):
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_a_thread_that_computes_in_python_is_named_and_the_training_is_not_called_healthy(work: Workplace) -> None:
    work.write("train.py", SCORES_BESIDE)
    ended = work.run("train.py", "computes")

    report = json.loads((work.recording() / "report.json").read_text())
    assert ended.code == 0, ended.err
    finding = next((finding for finding in report["findings"] if finding["rule"] == "gil-contention"), None)
    assert finding is not None, report["verdict"]["summary"]
    assert "score (train.py:8)" in finding["title"] or "keep_scoring (train.py:11)" in finding["title"]
    assert report["verdict"]["state"] != "healthy"


@pytest.mark.nightly
@pytest.mark.slow
def test_a_thread_that_sleeps_is_not_named(work: Workplace) -> None:
    work.write("train.py", SCORES_BESIDE)
    ended = work.run("train.py", "sleeps")

    report = json.loads((work.recording() / "report.json").read_text())
    assert ended.code == 0, ended.err
    assert "gil-contention" not in [finding["rule"] for finding in report["findings"]]
