"""Steps of several forwards, as many as an episode is long."""

from __future__ import annotations

import json
from typing import Any

import pytest

from launching import Workplace

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

AGENT = """
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
policy = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 4))
optimizer = torch.optim.Adam(policy.parameters())
"""

LEARNS = """
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


@pytest.mark.nightly
def test_episodes_that_get_longer_are_no_steps_that_grow(work: Workplace) -> None:
    work.write("train.py", AGENT + LEARNS)
    target = work.runs.parent / "report.json"

    ended = work.run("train.py", options=("--json", str(target)))

    assert ended.code == 0, ended.err
    report = json.loads(target.read_text())
    assert report["verdict"]["state"] != "bottleneck"
    assert not {"growing-step-time", "unstable-step-time"} & {finding["rule"] for finding in report["findings"]}


PLAYS = """
def play(state, action):
    # An environment in Python: no stack is taken in it, it holds the GIL.
    return torch.tensor([(value * 3 + action) % 7 for value in state])

state = [float(i) for i in range(64)]
for update in range(700):
    for _ in range(4):
        with torch.no_grad():
            action = int(policy(torch.tensor(state)[None]).argmax())
        for _ in range(10):
            state = play(state, action).tolist()
    optimizer.zero_grad()
    policy(torch.randn(64, 64)).log_softmax(1)[:, 0].mean().backward()
    optimizer.step()
"""


def played(work: Workplace) -> dict[str, Any]:
    work.write("train.py", AGENT + PLAYS)
    target = work.runs.parent / "report.json"

    ended = work.run("train.py", options=("--json", str(target)))

    assert ended.code == 0, ended.err
    report: dict[str, Any] = json.loads(target.read_text())
    return report


def test_a_training_that_mostly_plays_is_never_healthy(work: Workplace) -> None:
    assert played(work)["verdict"]["state"] in ("bottleneck", "undetermined")


# Stacks that are taken in it tell it, where there are enough of them: how fast the machine is decides that, and what is sure to gain.
@pytest.mark.nightly
def test_the_environment_of_a_roll_out_is_named_or_is_to_be_named(work: Workplace) -> None:
    report = played(work)

    named = [finding for finding in report["findings"] if "play (train.py:9)" in finding["title"]]
    assert named or "slowstep.span(" in report["verdict"]["summary"]


# Ways in which people write the same: gradients stay on, or the agent is in its evaluation mode, as in Stable-Baselines3.
FORMS = {
    "with gradients": ("with torch.no_grad():", "if True:"),
    "in evaluation mode": ("with torch.no_grad():", "policy.train(False)\n        with torch.no_grad():"),
}


@pytest.mark.parametrize("form", ["in evaluation mode", pytest.param("with gradients", marks=pytest.mark.nightly)])
def test_a_roll_out_is_no_part_of_the_step_s_own_work_in_whatever_form(work: Workplace, form: str) -> None:
    plays = PLAYS.replace(*FORMS[form]).replace("    optimizer.zero_grad()", "    policy.train()\n    optimizer.zero_grad()")
    work.write("train.py", AGENT + plays)

    ended = work.run("train.py")

    assert ended.code == 0, ended.err
    report = json.loads((work.recording() / "report.json").read_text())
    shares = {row["stage"]: row["share"] for row in report["ledger"]}
    parts = {part["name"]: part["share"] for row in report["ledger"] for part in row["parts"]}
    assert report["run"]["batch_size"] == 64
    # Most of the time is the environment's.
    assert parts["forward and the rest"] < 0.3, report["ledger"]
    assert shares["output"] < 0.1, report["ledger"]
    assert "validation" not in json.dumps(report["findings"])
