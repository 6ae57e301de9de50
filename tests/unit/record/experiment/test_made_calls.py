"""Which call of the script has made the training's loader, as the training notes it when an experiment begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from few import few
from levered import run_planned
from recorded import Server
from slowstep.prove.patch.noted import find_changes

pytest.importorskip("torch")

# The validation's loader is made by the same call, or by one beside it.
SCRIPT = """
import functools
import torch
from torch.utils import data
from torch.utils.data import DataLoader

class Numbers(data.Dataset):
    def __len__(self):
        return {length}
    def __getitem__(self, index):
        return torch.tensor([float(index)])

{before}
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
loader, validation = {loaders}
for number, batch in enumerate(loader):
    optimizer.zero_grad()
    model(batch).mean().backward()
    optimizer.step()
"""
HELPER = "def make(length):\n    return DataLoader(Numbers(), length, True)\n"
SUBCLASS = "class Mine(DataLoader):\n    def __init__(self, *args):\n        super().__init__(Numbers(), 4, *args)\n"
TAKING = "class Mine(DataLoader):\n    def __init__(self, length):\n        super().__init__(Numbers(), batch_size=length)\n"


@pytest.mark.parametrize(
    ("before", "loaders", "line", "others"),
    few(
        [
            (
                "",
                "DataLoader(Numbers(), 4), DataLoader(Numbers(), 8)",
                "DataLoader(Numbers(), 4, num_workers=2), DataLoader(Numbers(), 8)",
                0,
            ),
            (HELPER, "make(4), make(8)", "DataLoader(Numbers(), length, True, num_workers=2)", 1),
            (HELPER, "[make(8) for _ in range(3)][2], None", "DataLoader(Numbers(), length, True, num_workers=2)", 0),
            (
                "make = functools.partial(DataLoader, num_workers=0)",
                "make(Numbers(), 4), None",
                "make(Numbers(), 4, num_workers=2), None",
                0,
            ),
            (TAKING, "Mine(4), None", "super().__init__(Numbers(), batch_size=length, num_workers=2)", 0),
            (SUBCLASS, "Mine(False), None", None, 0),
            ("", "list(map(DataLoader, [Numbers()])) * 2", None, 0),
        ],
        every=3,
    ),
    ids=["a call", "a helper", "a helper again and again", "partial", "a subclass", "* of something", "map"],
)
def test_it_is_known_by_the_place_of_the_call(
    server: Server, tmp_path: Path, before: str, loaders: str, line: str | None, others: int
) -> None:
    ran = run_planned(server, tmp_path, SCRIPT.format(before=before, loaders=loaders, length=64), "workers=2", blocks=(0,), steps=5)

    facts: dict[str, Any] = {"workers=2": {"arguments": {"num_workers": 2}}}
    change = find_changes(facts, ran.trainer.noted("made"), tmp_path, is_copied=False)["workers=2"]
    added = [text for text in (change.difference or b"").decode().splitlines() if text.startswith("+")]
    assert [text.rpartition(" = ")[2].removeprefix("+").replace("return ", "").strip() for text in added[1:]] == (
        [] if line is None else [line]
    )
    assert change.others == others
    assert ran.trainer.faults == {}


def test_a_lever_of_the_loader_tells_its_arguments_as_a_script_writes_them(server: Server, tmp_path: Path) -> None:
    text = SCRIPT.format(before="", loaders="DataLoader(Numbers(), 4), None", length=4000)
    ran = run_planned(server, tmp_path, text, "workers=1", "batch-size=8", blocks=(2, 3, 0), steps=3)

    facts = {note["name"]: note["facts"] for note in ran.trainer.noted("lever") if note["state"] == "effect" and note["arm"]}
    assert facts["workers=1"]["arguments"] == {"num_workers": 1, "persistent_workers": True}
    assert "arguments" not in facts.get("batch-size=8", {})


TWO = "optimizer = torch.optim.SGD(model.parameters(), lr=1e-6); other = torch.optim.SGD(model.parameters(), lr=1e-6)"
LISTED = "optimizer, other = [torch.optim.SGD(model.parameters(), lr=1e-6) for _ in range(2)]"


@pytest.mark.parametrize(
    ("made", "others"),
    few([(None, 0), (TWO, None), (LISTED, 1)], every=3),
    ids=["one call", "two calls, both of the training", "one call for two"],
)
def test_the_call_that_makes_the_optimizer_is_known_where_it_is_one(
    server: Server, tmp_path: Path, made: str | None, others: int | None
) -> None:
    text = SCRIPT.format(before="", loaders="DataLoader(Numbers(), 4), None", length=64)
    if made is not None:
        text = text.replace("optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)", made)
    if others is None:
        text = text.replace("optimizer.step()", "optimizer.step(); other.step()")
    ran = run_planned(server, tmp_path, text, "fused", blocks=(0,), steps=5)

    facts: dict[str, Any] = {"fused": {"arguments": {"fused": True}, "arguments_of": "optimizer"}}
    change = find_changes(facts, ran.trainer.noted("made"), tmp_path, is_copied=False)["fused"]
    assert change.text == (None if others is None else "torch.optim.SGD(..., fused=True)")
    assert (b"lr=1e-6, fused=True)" in (change.difference or b"")) == (others is not None)
    assert change.others == (others or 0)
    assert ran.trainer.faults == {}


LIBRARY = """
from torch.utils.data import DataLoader

def copied(loader):
    return DataLoader(loader.dataset, loader.batch_size)

def made_of(data):
    return DataLoader(data, 4)
"""


@pytest.mark.parametrize(
    ("call", "is_found"), few([("copied(mine)", True), ("made_of(mine.dataset)", False)], every=2), ids=["of a loader", "of its data set"]
)
def test_a_loader_that_a_library_makes_of_another_is_made_by_that_ones_call(
    server: Server, tmp_path: Path, call: str, is_found: bool
) -> None:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "library.py").write_text(LIBRARY)
    mine = "mine = DataLoader(Numbers(), 4)"
    before = f"import sys\nsys.path.append('site-packages')\nimport library\n{mine}"
    text = SCRIPT.format(before=before, loaders=f"library.{call}, None", length=64)

    (note,) = run_planned(server, tmp_path, text, "workers=2", blocks=(0,), steps=5).trainer.noted("made")

    lines = [(tmp_path / "train.py").read_text().splitlines()[each["line"] - 1] for each in note["calls"]]
    assert lines == [f"loader, validation = library.{call}, None", *([mine] if is_found else [])]


TRAINER = """
import torch
from transformers import Trainer, TrainingArguments

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, index):
        return {"x": torch.ones(1), "labels": torch.ones(1)}

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
    def forward(self, x, labels=None):
        return {"loss": (self.layer(x) - labels).square().mean()}

numbers = Numbers()
beside = torch.utils.data.DataLoader(numbers, 4)
arguments = TrainingArguments("out", save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True)
Trainer(Model(), arguments, train_dataset=numbers).train()
"""


@pytest.mark.slow
# Beside other tests five steps were once too few for a trainer to log.
@pytest.mark.nightly
def test_the_loader_of_a_trainer_is_made_by_its_settings(server: Server, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    ran = run_planned(server, tmp_path, TRAINER, "workers=2", "logging-off:every=2", blocks=(0,), steps=5)

    changes = find_changes({"workers=2": {"arguments": {"num_workers": 2}}}, ran.trainer.noted("made"), tmp_path, is_copied=False)
    assert changes["workers=2"].text == "TrainingArguments(dataloader_num_workers=2)"
    assert b"disable_tqdm=True, dataloader_num_workers=2)" in (changes["workers=2"].difference or b"")
    facts = {note["name"]: note["facts"] for note in ran.trainer.noted("lever") if note["state"] == "effect"}
    seldom = find_changes(facts, ran.trainer.noted("made"), tmp_path, is_copied=False)["logging-off:every=2"]
    assert (seldom.text, seldom.made) == ("TrainingArguments(logging_steps=1000)", "trainer")
    assert ran.trainer.faults == {}


LIGHTNING = """
import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
    def training_step(self, batch, index):
        return self.layer(batch[0]).mean()
    def validation_step(self, batch, index):
        self.layer(batch[0])
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-6)

loaders = [DataLoader(TensorDataset(torch.ones(16, 1)), 4) for _ in range(2)]
trainer = Trainer(max_epochs=5, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
trainer.fit(Model(), *loaders)
"""


@pytest.mark.slow
def test_how_often_lightning_validates_is_said_where_its_trainer_is_made(server: Server, tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    ran = run_planned(server, tmp_path, LIGHTNING, "validation-off:every=2", blocks=(0,), steps=5)

    facts = {note["name"]: note["facts"] for note in ran.trainer.noted("lever") if note["state"] == "effect"}
    changes = find_changes(facts, ran.trainer.noted("made"), tmp_path, is_copied=False)
    assert changes["validation-off:every=2"].text == "Trainer(check_val_every_n_epoch=2)"
    assert b"enable_progress_bar=False, check_val_every_n_epoch=2)" in (changes["validation-off:every=2"].difference or b"")
    assert ran.trainer.faults == {}
