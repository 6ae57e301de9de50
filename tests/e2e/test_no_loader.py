"""A loop over tensors in memory: what runs in Python between its forward and its update is named as in a loop with a loader."""

from __future__ import annotations

import json
import re
from typing import Any

import polars as pl
import pytest

from launching import Workplace
from slowstep.sources import recording

IN_MEMORY = """\
import sys
import torch

torch.set_num_threads(1)

def weights_of(targets):
    weights = torch.ones(len(targets))
    rows = targets.tolist()
    for index, row in enumerate(rows):
        for other in rows[max(index - 64, 0) : index]:
            if other == row:
                weights[index] = 0.5
    return weights

def watch(module, inputs, outputs):
    for channel in outputs.detach().T:
        channel.median().item()

def draw_batch():
    chosen = torch.randint(0, len(data), (256,))
    for _ in range(3):
        sum(index * index for index in range(6_000 if sys.argv[1] == "ahead" else 3_000))
    return data[chosen], classes[chosen]

data, classes = torch.randn(4096, 128), torch.randint(0, 50, (4096,))
model = torch.nn.Sequential(*(torch.nn.Linear(128, 128) for _ in range(6)))
if sys.argv[1] == "hook":
    model[2].register_forward_hook(watch)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
inputs, targets = draw_batch()
for step in range(int(sys.argv[2])):
    if sys.argv[1] != "ahead":
        inputs, targets = draw_batch()
    losses = torch.nn.functional.cross_entropy(model(inputs), targets, reduction="none")
    loss = (losses * weights_of(targets)).mean() if sys.argv[1] == "weights" else losses.mean()
    if sys.argv[1] == "ahead":
        inputs, targets = draw_batch()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

pytestmark = pytest.mark.slow


def findings(work: Workplace, problem: str, steps: int) -> tuple[dict[str, dict[str, Any]], str]:
    """What was found, by rule, and the verdict's state."""
    work.write("train.py", IN_MEMORY)
    ended = work.run("train.py", problem, str(steps))
    report = json.loads((work.recording() / "report.json").read_text())
    assert ended.code == 0, ended.err
    return {finding["rule"]: finding for finding in report["findings"]}, report["verdict"]["state"]


def shares_of(work: Workplace, script: str) -> dict[tuple[str, str], float]:
    """The parts of a training's steps, by stage and name."""
    work.write("train.py", script)
    ended = work.run("train.py")
    assert ended.code == 0, ended.err
    report = json.loads((work.recording() / "report.json").read_text())
    return {(row["stage"], part["name"]): part["share"] for row in report["ledger"] for part in row["parts"]}


# Beside other tests timed steps may be mostly waits for a core, and a part of two or three of them little: what is named is then open.
@pytest.mark.nightly
def test_a_loop_over_the_samples_in_the_loss_is_named(work: Workplace) -> None:
    found, _ = findings(work, "weights", 600)
    assert "weights_of" in found["python-between-operations"]["title"]
    assert found["python-between-operations"]["gain"]["predicted"] > 1


@pytest.mark.nightly
def test_a_hook_that_only_looks_is_named_and_the_training_is_not_called_healthy(work: Workplace) -> None:
    found, state = findings(work, "hook", 500)
    assert "watch" in found["beside-the-model"]["title"]
    assert found["beside-the-model"]["gain"]["predicted"] > 1
    assert state != "healthy"


def test_a_batch_that_is_made_between_forward_and_backward_is_named(work: Workplace) -> None:
    found, state = findings(work, "ahead", 800)
    assert "draw_batch" in found["beside-the-model"]["title"]
    assert state != "healthy"


def test_what_makes_the_batch_above_the_forward_is_neither(work: Workplace) -> None:
    found, _ = findings(work, "nothing", 1200)
    assert not {"python-between-operations", "beside-the-model"} & set(found)
    # Its steps are short, and not every one is looked at: what is timed must end with its own step all the same.
    calls = recording.SOURCE.read(work.recording()).table("calls")
    timed = set(calls.filter(pl.col("kind") == "body")["function"])
    assert "Module._call_impl" in timed
    assert "draw_batch" not in timed


TWO_NETWORKS = """\
import torch
from torch import nn

torch.set_num_threads(1)
data = torch.randn(8192, 64)

def batch():
    return torch.stack([data[row] for row in torch.randint(0, 8192, (512,)).tolist()])

generator = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 64))
critic = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1))
of_generator, of_critic = (torch.optim.Adam(network.parameters(), lr=2e-4) for network in (generator, critic))
loss = nn.BCEWithLogitsLoss()
yes, no = torch.ones(512, 1), torch.zeros(512, 1)
for step in range(1_000):
    real = batch()
    fake = generator(torch.randn(512, 16))
    of_critic.zero_grad()
    (loss(critic(real), yes) + loss(critic(fake.detach()), no)).backward()
    of_critic.step()
    of_generator.zero_grad()
    loss(critic(fake), yes).backward()
    of_generator.step()
"""


@pytest.mark.nightly
def test_the_batch_of_two_networks_in_turns_is_input_and_their_bodies_are_timed_whole(work: Workplace) -> None:
    assert shares_of(work, TWO_NETWORKS)["preprocess", "batch (train.py:7)"] > 0
    body = recording.SOURCE.read(work.recording()).table("calls").filter(pl.col("kind") == "body")
    timed = {row["function"]: row["calls"] for row in body.iter_rows(named=True)}
    assert timed["Tensor.backward"] == 2 * body["stretches"][0]
    assert "batch" not in timed


SHORT = """\
import random
import torch

torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)

def draw_batch():
    return torch.tensor([[random.random() for _ in range(64)] for _ in range(64)])

def count(outputs):
    return sum(index * index for index in range(5_000))

for step in range(2_000):
    inputs = draw_batch()
    optimizer.zero_grad()
    outputs = model(inputs)
    outputs.pow(2).mean().backward()
    optimizer.step()
    count(outputs)
"""


# Beside other tests many stacks are taken where the thread lets go of the lock at last, in the line after them.
@pytest.mark.nightly
def test_short_functions_that_hold_the_interpreter_s_lock_are_told_apart(work: Workplace) -> None:
    shares = shares_of(work, SHORT)
    # Each holds the lock for less than the five milliseconds after which Python takes it away, so no stack is taken in either.
    assert shares["preprocess", "draw_batch (train.py:8)"] > 0.3
    assert shares["output", "count (train.py:11)"] > 0.1
    assert shares["preprocess", "draw_batch (train.py:8)"] > shares["output", "count (train.py:11)"]


WINDOWS = """\
import sys
import torch

torch.set_num_threads(1)
series = torch.randn(100_000, 8)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8 * 32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)

def one_by_one(starts):
    return torch.stack([series[start : start + 32] for start in starts.tolist()])

def at_once(starts):
    return torch.cat((series, series))[: len(series)][starts[:, None] + torch.arange(32)]

windows = {"loop": one_by_one, "operation": at_once}[sys.argv[1]]
for step in range(3_000):
    inputs = windows(torch.randint(0, 99_000, (512,)))
    optimizer.zero_grad()
    model(inputs).pow(2).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("how", "named"), [("loop", True), pytest.param("operation", False, marks=pytest.mark.nightly)])
def test_only_a_loop_in_python_can_be_made_faster_by_other_code(work: Workplace, how: str, named: bool) -> None:
    work.write("train.py", WINDOWS)
    ended = work.run("train.py", how)
    assert ended.code == 0, ended.err

    report = json.loads((work.recording() / "report.json").read_text())
    input_share = next(row["share"] for row in report["ledger"] if row["stage"] == "preprocess")
    assert input_share > 0.2, report["ledger"]
    titles = [finding["title"] for finding in report["findings"] if finding["rule"] == "slow-transform"]
    assert [title.partition(" ")[0] for title in titles] == (["one_by_one"] if named else [])


# Each batch of the loader serves eight updates, and for each of them something is made of it in Python.
SHARED_BATCHES = """\
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
loader = DataLoader(TensorDataset(torch.randn(40_960, 64), torch.randint(0, 10, (40_960,))), batch_size=256)
model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def pick(inputs, k):
    if sys.argv[1] == "log":
        return inputs[k::8]
    return torch.tensor([[value * 0.5 for value in row] for row in inputs[k::8].tolist()])

def report(loss):
    if sys.argv[1] == "log":
        sum(index * index for index in range(10_000))

for inputs, classes in loader:
    for k in range(8):
        mine = pick(inputs, k)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(mine), classes[k::8])
        loss.backward()
        optimizer.step()
        report(loss.detach())
"""


@pytest.mark.parametrize(
    ("problem", "part", "other"),
    [
        pytest.param("input", ("preprocess", "pick (train.py:11)"), "report", id="what makes input of it"),
        pytest.param("log", ("output", "report (train.py:16)"), "pick", id="what follows the update", marks=pytest.mark.nightly),
    ],
)
def test_of_a_batch_that_serves_several_updates_input_is_told_from_output(
    work: Workplace, problem: str, part: tuple[str, str], other: str
) -> None:
    work.write("train.py", SHARED_BATCHES)
    ended = work.run("train.py", problem)
    assert ended.code == 0, ended.err

    report = json.loads((work.recording() / "report.json").read_text())
    shares = {(row["stage"], each["name"]): each["share"] for row in report["ledger"] for each in row["parts"]}
    assert report["run"]["step_boundary"] == "end of the optimizer call"
    assert shares.get(part, 0.0) > 0.1, shares
    assert not [finding["title"] for finding in report["findings"] if other in finding["title"]]


# As written before there were modules.
FUNCTIONS_ONLY = """\
import torch

torch.set_num_threads(1)
data, classes = torch.randn(4096, 64), torch.randint(0, 10, (4096,))
weights = [(torch.randn(*shape) * 0.05).requires_grad_() for shape in ((64, 768), (768, 768), (768, 10))]
optimizer = torch.optim.SGD(weights, lr=0.01)

def predict(inputs):
    for weight in weights[:-1]:
        inputs = torch.relu(inputs @ weight)
    return inputs @ weights[-1]

{steps}
    chosen = torch.randint(0, 4096, (64,))
    loss = torch.nn.functional.cross_entropy(predict(data[chosen]), classes[chosen])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.nightly
def test_a_model_that_is_no_module_is_not_blamed(work: Workplace) -> None:
    work.write("train.py", FUNCTIONS_ONLY.format(steps="for step in range(1_200):"))
    ended = work.run("train.py")
    assert ended.code == 0, ended.err

    report = json.loads((work.recording() / "report.json").read_text())
    assert [finding["title"] for finding in report["findings"] if "predict" in finding["title"]] == []
    assert report["verdict"]["state"] == "undetermined"
    # It may as well make the input. Where other tests held the cores too long, what waiting for them took comes first.
    assert re.search(r"predict \(train\.py:8\)|1\d % of the time could not be attributed", report["verdict"]["summary"])
    assert "slowstep.steps()" in report["verdict"]["summary"]


def test_a_model_that_is_no_module_is_the_training_s_work_where_its_input_is_known(work: Workplace) -> None:
    work.write("train.py", FUNCTIONS_ONLY.format(steps="import slowstep\nfor step in slowstep.steps(range(1_200)):"))
    ended = work.run("train.py")
    assert ended.code == 0, ended.err

    report = json.loads((work.recording() / "report.json").read_text())
    assert next(row["share"] for row in report["ledger"] if row["stage"] == "compute") > 0.9
    assert report["verdict"]["state"] != "bottleneck"


BEGIN = """\
import time, torch

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def slow():
    time.sleep(0.02)

def load():
    slow()
    return torch.randn(4, 8)

def report(loss):
    slow()

def train(batch):
    loss = model(batch).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss

for step in range(60):
"""
ARGUMENT_OF_FORWARD = """\
    loss = model(
        load(),
    ).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
HAS_THE_STEP_AS_ARGUMENT = """\
    report(
        train(
            torch.randn(4, 8),
        ),
    )
"""


@pytest.mark.parametrize(
    ("body", "name", "stages"),
    [
        (ARGUMENT_OF_FORWARD, "load", {"read", "preprocess"}),
        ("    train(\n        load(),\n    )\n", "load", {"read", "preprocess"}),
        (HAS_THE_STEP_AS_ARGUMENT, "report", {"output"}),
    ],
    ids=["of the forward", "of the step", "the step itself"],
)
def test_arguments_come_before_the_call_that_they_are_for(work: Workplace, body: str, name: str, stages: set[str]) -> None:
    parts = shares_of(work, BEGIN + body)

    assert sum(share for (stage, _), share in parts.items() if stage in stages) > 0.5
    assert {stage for stage, part in parts if part == name} <= stages
