"""Levers of input in a process of their own, under the frameworks that people train with; it is ended as an experiment ends it."""

from __future__ import annotations

import importlib.util
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_trainings import AS_IS, Walked, plan_of
from recorded import Ran, Server, run_script
from slowstep.prove.stats.plan import Plan
from slowstep.record.writing import format as contract

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

LIMIT_S = 60
LEVERS = ("mock-loader", "workers=2", "batch-size=8")
BLOCKS = [0, 1, 2, 3, 0, 3, 2, 1]
# Of one worker a batch takes four of them, far longer than all else in a step.
SAMPLE_S = 0.01

DATA = f"""
import sys, time, warnings
warnings.simplefilter("ignore")
import torch
from torch.utils.data import DataLoader, Dataset
torch.set_num_threads(1)

class Numbers(Dataset):
    def __len__(self):
        return 240
    def __getitem__(self, index):
        time.sleep({SAMPLE_S})
        return {{"x": torch.full((8,), float(index)), "labels": torch.tensor(index % 3)}}

def loss_of(model, batch):
    return torch.nn.functional.cross_entropy(model(batch["x"]), batch["labels"])
"""
SCRIPTS = {
    "torch": """
layer = torch.nn.Linear(8, 3)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
loader = DataLoader(Numbers(), batch_size=4, num_workers=1, shuffle=True)
for epoch in range(1000):
    for batch in loader:
        optimizer.zero_grad()
        loss_of(layer, batch).backward()
        optimizer.step()
""",
    "lightning": """
import lightning.pytorch as pl

class Data(pl.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(Numbers(), batch_size=4, num_workers=1, shuffle=True)

class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 3)
    def training_step(self, batch, index):
        assert index < 60
        return loss_of(self.layer, batch)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

trainer = pl.Trainer(max_epochs=1000, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False)
trainer.fit(Net(), datamodule=Data())
""",
    "huggingface": """
from transformers import Trainer, TrainingArguments

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 3)
    def forward(self, x, labels):
        return {"loss": loss_of(self.layer, {"x": x, "labels": labels}), "logits": labels}

arguments = TrainingArguments(output_dir="out", num_train_epochs=1000, per_device_train_batch_size=4, dataloader_num_workers=1,
    use_cpu=True, report_to="none", save_strategy="no", disable_tqdm=True, logging_strategy="no", optim="sgd")
Trainer(model=Net(), args=arguments, train_dataset=Numbers()).train()
""",
    "accelerate": """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
layer = torch.nn.Linear(8, 3)
model, optimizer, loader = accelerator.prepare(
    layer, torch.optim.SGD(layer.parameters(), lr=0.01), DataLoader(Numbers(), batch_size=4, num_workers=1, shuffle=True))
for epoch in range(1000):
    for count, batch in enumerate(loader):
        optimizer.zero_grad()
        accelerator.backward(loss_of(model, batch))
        optimizer.step()
    assert count == 59, count
""",
}
NEEDS = {"torch": (), "lightning": ("lightning",), "huggingface": ("transformers", "accelerate"), "accelerate": ("accelerate",)}
AT_NIGHT = ("huggingface", "accelerate")


def needs(framework: str) -> Any:
    missing = [name for name in NEEDS[framework] if importlib.util.find_spec(name) is None]
    marks = [pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")]
    return pytest.param(framework, marks=marks + [pytest.mark.nightly] * (framework in AT_NIGHT))


def word(control: Path, offset: int) -> int:
    return int.from_bytes(control.read_bytes()[offset : offset + 8], "little")


@contextmanager
def posted(folder: Path, plan: Plan) -> Iterator[None]:
    """From outside: post a plan after 70 updates, and kill the process when it is done or the time is over."""
    ended = threading.Event()
    control = folder / contract.CONTROL_FILE

    def follow() -> None:
        until = time.monotonic() + LIMIT_S
        while not ended.wait(0.02) and time.monotonic() < until:
            if not control.exists() or len(page := control.read_bytes()) < contract.CONTROL_BYTES:
                continue
            if page[contract.CONTROL_PLAN] == contract.PLAN_NONE and word(control, contract.CONTROL_UPDATES) >= 70:
                (folder / contract.PLAN_FILE).write_text(plan.dumps())
                with control.open("r+b") as file:
                    file.seek(contract.CONTROL_PLAN)
                    file.write(bytes([contract.PLAN_POSTED]))
            if page[contract.CONTROL_PLAN] == contract.PLAN_DONE:
                break
        if pid := word(control, contract.CONTROL_PID):
            os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def experiment(server: Server, place: Path, framework: str, plan: Plan) -> tuple[Ran, Walked]:
    folder = place / "recording"
    with posted(folder, plan):
        ran = run_script(server, place, DATA + SCRIPTS[framework], **{contract.ENV_EXPERIMENT: "1"})
    return ran, Walked(folder, pid=word(folder / contract.CONTROL_FILE, contract.CONTROL_PID))


@pytest.mark.parametrize("framework", [needs(framework) for framework in SCRIPTS])
def test_input_can_be_changed_under_every_framework(framework: str, server: Server, tmp_path: Path) -> None:
    ran, walked = experiment(server, tmp_path, framework, plan_of(LEVERS, BLOCKS, steps=8))

    # Killed when all was done: before that the script would have ended by an error of its own.
    assert ran.code == -signal.SIGKILL, ran.err
    assert walked.faults == {}
    assert [walked.became(arm) for arm in (1, 2, 3)] == [["ready", "effect"]] * 3, walked.notes
    steps = walked.steps
    # Some ask for a batch ahead: two in an epoch's first step, and none in its last, which is known too.
    for arm, size in ((AS_IS, 4), (1, 4), (2, 4), (3, 8)):
        samples = set(steps.samples[(steps.arm == arm) & ~steps.settling].tolist())
        assert size in samples
        assert samples <= {0, size, 2 * size}
    # One worker makes a batch in 40 ms and more, which is nearly all of a step.
    own, mocked = (float(np.median(steps.ns[(steps.arm == arm) & ~steps.settling])) for arm in (AS_IS, 1))
    assert own > 4 * SAMPLE_S * 1e9
    assert mocked < own / 2
