"""A loop that is fed by threads of the script's own: what they run is named where they cannot keep up, and only there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from launching import Workplace

PREFETCHED = """\
import queue
import random
import sys
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
import torch

torch.set_num_threads(1)
how, work = sys.argv[1], int(sys.argv[2])
STEPS = 300
data = random.Random(1).randbytes(work)

def load_in_python(index):
    total = 0
    for letter in range(30 * work):
        total += letter % 7
    return torch.full((64,), total / 1e9)

def load_sample(index):
    if how == "python":
        return load_in_python(index)
    # Lets go of the GIL: else the training would wait for that, and the batches be ready.
    value = len(zlib.compress(data, 9))
    return torch.full((64,), index / (value + 1))

def load_batch(step):
    return torch.stack([load_sample(index) for index in range(16)])

def keep_loading(ready):
    for step in range(STEPS):
        ready.put(load_batch(step))

def of_thread():
    ready = queue.Queue(4)
    threading.Thread(target=keep_loading, args=(ready,), daemon=True).start()
    for _ in range(STEPS):
        yield ready.get()

def of_pool():
    with ThreadPoolExecutor(2) as pool:
        yield from pool.map(load_batch, range(STEPS))

model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for inputs in {"thread": of_thread, "python": of_thread, "pool": of_pool}[how]():
    optimizer.zero_grad()
    model(inputs).square().mean().backward()
    optimizer.step()
"""


def report_on(work: Workplace, *words: str) -> dict[str, Any]:
    work.write("train.py", PREFETCHED)
    ended = work.run("train.py", *words)
    assert ended.code == 0, ended.err
    report: dict[str, Any] = json.loads((work.recording() / "report.json").read_text())
    return report


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "made_in"),
    [("thread", "keep_loading (train.py:30)"), pytest.param("pool", "load_batch (train.py:27)", marks=pytest.mark.nightly)],
)
def test_what_threads_run_is_named_where_they_cannot_keep_up(work: Workplace, how: str, made_in: str) -> None:
    report = report_on(work, how, "40000")

    finding = next((each for each in report["findings"] if each["rule"] == "slow-prefetch-thread"), None)
    assert finding is not None, (report["verdict"], report["not_judged"])
    assert made_in in finding["title"]
    assert any(row["value"] == "load_sample (train.py:20)" for row in finding["evidence"])


@pytest.mark.slow
def test_a_thread_of_python_that_makes_batches_is_one_finding_and_about_input(work: Workplace) -> None:
    report = report_on(work, "python", "200")

    found = {each["rule"]: each for each in report["findings"]}
    assert "slow-prefetch-thread" in found, (report["verdict"], report["not_judged"])
    assert "gil-contention" not in found
    assert found["slow-prefetch-thread"]["stage"] == "preprocess"
    assert any("load_in_python" in str(row["value"]) for row in found["slow-prefetch-thread"]["evidence"])


@pytest.mark.nightly
@pytest.mark.slow
def test_a_thread_that_keeps_up_is_not_named(work: Workplace) -> None:
    report = report_on(work, "thread", "1")

    assert "slow-prefetch-thread" not in [finding["rule"] for finding in report["findings"]]
