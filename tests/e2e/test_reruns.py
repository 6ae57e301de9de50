"""Whole runs of a real script: losses with and without a lever, and its throughput where it cannot be switched."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from plain_executor import PlainExecutor
from slowstep.prove.reruns import check, rerun
from slowstep.prove.whole_run import MakeExecutor, RunRequest, WholeRunLimits, run_once
from slowstep.record.experiment.lever_text import parse_spec

pytest.importorskip("torch")

# Dropout and two epochs or more: the order of the later ones would depend on what was drawn before.
SCRIPT = """
import random
import torch
from torch.utils.data import DataLoader, TensorDataset

def batch_noise(batch):
    inputs, targets = torch.utils.data.default_collate(batch)
    return inputs + random.random() / 100, targets

SEED
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Dropout(0.1), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
inputs = torch.randn(160, 32)
data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
while True:
    for batch, targets in DataLoader(data, batch_size=8, shuffle=True, collate_fn=batch_noise):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(batch), targets)
        loss.backward()
        optimizer.step()
        print(loss.item().hex(), flush=True)
"""
DIVERGES = """
def diverges(outputs):
    return outputs * float("nan") if torch.is_autocast_enabled("cpu") else outputs
"""
SLOW_INPUT = """
import time
import torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        time.sleep(0.005)
        return torch.zeros(8)

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Slow(), batch_size=4)
while True:
    for batch in loader:
        optimizer.zero_grad()
        model(batch).mean().backward()
        time.sleep(0.005)
        optimizer.step()
"""


def made(place: Path, text: str) -> MakeExecutor:
    """Makes runs of a script, each in a folder of its own."""
    script = place / "train.py"
    script.write_text(text)

    def make(asked: Mapping[str, str]) -> PlainExecutor:
        return PlainExecutor(script, place / f"run-{len(list(place.glob('run-*')))}", asked)

    return make


LIMITS = WholeRunLimits(steps=120, seconds=60.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [pytest.param("torch.manual_seed(1)", id="seeded", marks=pytest.mark.nightly), pytest.param("", id="unseeded")]
)
@pytest.mark.nightly
def test_autocast_changes_the_losses_less_than_another_seed_does(tmp_path: Path, seed: str) -> None:
    found = check(made(tmp_path, SCRIPT.replace("SEED", seed)), parse_spec("autocast=bf16"), LIMITS)

    assert (found.state, found.reason) == ("done", None)
    numerics = found.numerics
    assert numerics is not None
    assert numerics.whole is not None
    assert numerics.whole.spread is not None
    # A sixteen-bit product is right to some 0.4 %; the runs see the same data, weights and dropout.
    assert 0 < max(map(abs, numerics.whole.by_seed)) < 0.02
    assert numerics.whole.spread > abs(numerics.whole.relative)
    assert (numerics.seeds, numerics.same_input, numerics.bitwise_equal) == (3, True, False)
    assert numerics.steps >= 100
    assert numerics.late is not None


@pytest.mark.slow
def test_a_lever_that_changes_nothing_gives_equal_losses_to_the_last_bit(tmp_path: Path) -> None:
    # A model so small that no operation of it is divided among threads.
    found = check(made(tmp_path, SCRIPT.replace("SEED", "")), parse_spec("threads=2"), LIMITS, offsets=(0, 5))

    assert found.numerics is not None
    assert found.numerics.bitwise_equal
    assert found.numerics.same_input is True


@pytest.mark.slow
def test_recorded_losses_are_those_that_the_script_prints(tmp_path: Path) -> None:
    ran = run_once(made(tmp_path, SCRIPT.replace("SEED", "")), RunRequest(seed_offset=3, losses=True), LIMITS)

    printed = [float.fromhex(word) for word in (tmp_path / "run-0" / "output.txt").read_text().split()]
    assert ran.losses is not None
    recorded = ran.losses.loss.tolist()
    count = min(len(printed), len(recorded))
    assert count >= 120
    assert recorded[:count] == printed[:count]


@pytest.mark.slow
def test_a_loss_that_is_not_finite_ends_the_arm(tmp_path: Path) -> None:
    body = SCRIPT.replace("SEED", DIVERGES).replace("model(batch)", "diverges(model(batch))")

    found = check(made(tmp_path, body), parse_spec("autocast"), LIMITS)

    assert found.numerics is not None
    assert [bad.with_lever for bad in found.numerics.not_finite] == [True]
    assert len(list(tmp_path.glob("run-*"))) == 2
    ended = (tmp_path / "run-1" / "output.txt").read_text().split()
    assert len(ended) < 10_000


@pytest.mark.nightly
def test_throughput_of_whole_runs_shows_what_a_lever_gains(tmp_path: Path) -> None:
    lever = RunRequest(levers=(parse_spec("mock-loader"),))

    found = rerun(made(tmp_path, SLOW_INPUT), {"mock-loader": lever}, WholeRunLimits(steps=60, seconds=60.0), rounds=2, seed=1).levers[
        "mock-loader"
    ]

    assert (found.state, found.per) == ("measured", "sample")
    # 25 ms a step, of which 20 are input; what comes back from a sleep late makes it less.
    assert all(2.0 < ratio < 6.0 for ratio in found.ratios)
    assert found.effect >= 20
