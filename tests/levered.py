"""Runs scripts with levers: switched by a plan, or on from the beginning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from recorded import Ran, Record, Server, make_folder, run_script
from slowstep.prove.stats.plan import Arm, Plan
from slowstep.record.experiment.lever_text import parse_spec
from slowstep.record.writing import format as fmt

# Two linear layers on random numbers; what a test wants to know of a step it prints in `look`.
TRAINING = """
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(16, 16), torch.nn.Linear(16, 1)
        self.inside = None

    def forward(self, inputs):
        hidden = self.first(inputs)
        self.inside = hidden.dtype
        return self.second(hidden.relu())

def train(look, steps=24, model=None, batches=None):
    torch.manual_seed(3)
    model = model or Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = DataLoader(TensorDataset(torch.randn(steps * 4, 16), torch.randn(steps * 4, 1)), batch_size=4)
    for inputs, targets in loader:
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = torch.nn.functional.mse_loss(outputs, targets)
        loss.backward()
        optimizer.step()
        look(model, outputs, loss)
"""


def run_planned(
    server: Server, place: Path, text: str, *levers: str, blocks: tuple[int, ...], steps: int, is_posted: bool = True, **variables: str
) -> Ran:
    """Run a script with a plan that is posted before it begins, or by itself: arms 0 and 1 have no levers, 2 and on have one each."""
    folder = make_folder(place / "recording")
    arms = [Arm(name="as-is"), Arm(name="control"), *(Arm(name=name, levers=(parse_spec(name),)) for name in levers)]
    Path(folder, fmt.PLAN_FILE).write_text(Plan(seed=1, steps=steps, arms=tuple(arms), blocks=blocks).dumps())
    with Path(folder, fmt.CONTROL_FILE).open("r+b") as page:
        page.seek(fmt.CONTROL_PLAN)
        page.write(bytes([fmt.PLAN_POSTED if is_posted else fmt.PLAN_NONE]))
    variables = {fmt.ENV_RECORDING: folder, fmt.ENV_EXPERIMENT: "1"} | variables
    return run_script(server, place, text, recorded=False, **variables)


def run_always(server: Server, place: Path, text: str, *levers: str, name: str = "recording", **variables: str) -> Ran:
    """Run a script with levers on from the beginning."""
    specs = [{"name": spec.name, "value": spec.value, "every": spec.every} for spec in map(parse_spec, levers)]
    return run_script(server, place, text, name=name, **({fmt.ENV_LEVERS: json.dumps(specs)} if levers else {}), **variables)


def said(ran: Ran, state: str) -> list[dict[str, Any]]:
    """What was said of levers in a state."""
    return [note for note in ran.trainer.noted("lever") if note["state"] == state]


def steps_of(ran: Ran, arm: int) -> list[Record]:
    """The steps of an arm, those in which the training settled included."""
    return [record for record in ran.trainer.of("ARM") if record.extra == arm]
