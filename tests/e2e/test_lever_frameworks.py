"""Levers and losses in trainings of Lightning and transformers, with and without a precision setting of their own."""

from __future__ import annotations

import struct
from importlib.util import find_spec
from pathlib import Path

import pytest

from levered import run_always, said
from recorded import Ran, Server, Servers
from slowstep.record.writing import format as fmt

pytest.importorskip("torch")

LIGHTNING = """
import warnings
warnings.simplefilter("ignore")
import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset

class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = torch.nn.Linear(8, 1)
    def training_step(self, batch):
        self.outputs = self.model(batch[0])
        loss = torch.nn.functional.mse_loss(self.outputs, batch[1])
        print(loss.item().hex(), torch.is_autocast_enabled("cpu"))
        return loss
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

L.seed_everything(1, verbose=False)
data = TensorDataset(torch.randn(96, 8), torch.randn(96, 1))
trainer = L.Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                    enable_model_summary=False, OPTIONS)
trainer.fit(Module(), DataLoader(data, batch_size=4))
"""
TRANSFORMERS = """
import warnings
warnings.simplefilter("ignore")
import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def forward(self, x, labels):
        loss = torch.nn.functional.mse_loss(self.layer(x), labels)
        print(loss.item().hex(), torch.is_autocast_enabled("cpu"))
        return {"loss": loss}

class Data(Dataset):
    def __len__(self):
        return 96
    def __getitem__(self, index):
        return {"x": torch.full((8,), index / 96), "labels": torch.ones(1)}

arguments = TrainingArguments(output_dir="out", per_device_train_batch_size=2, gradient_accumulation_steps=2, max_steps=24, report_to=[],
                              use_cpu=True, disable_tqdm=True, save_strategy="no", logging_strategy="no", OPTIONS)
Trainer(model=Model(), args=arguments, train_dataset=Data()).train()
"""


def server_of(servers: Servers, script: str) -> Server:
    """The one that has imported what the script trains with."""
    module = "lightning.pytorch" if script is LIGHTNING else "transformers.trainer"
    # Imported there alone.
    if find_spec(package := module.partition(".")[0]) is None:
        pytest.skip(f"needs {package}")
    return servers.having(module)


def steps(ran: Ran) -> list[tuple[float, bool]]:
    """Of each forward its loss, and whether it was under autocast."""
    assert ran.code == 0, ran.err
    lines = [line.split() for line in ran.out.splitlines() if line.endswith(("True", "False"))]
    return [(float.fromhex(loss), autocast == "True") for loss, autocast in lines]


def losses(ran: Ran) -> list[float]:
    return [struct.unpack("<d", record.a.to_bytes(8, "little", signed=True))[0] for record in ran.trainer.of("LOSS")]


@pytest.mark.slow
@pytest.mark.parametrize(("script", "passes"), [(LIGHTNING, 1), (TRANSFORMERS, 2)], ids=["lightning", "transformers"])
def test_autocast_is_on_in_a_training_without_a_precision_setting(servers: Servers, tmp_path: Path, script: str, passes: int) -> None:
    ran = run_always(server_of(servers, script), tmp_path, script.replace("OPTIONS", ""), "autocast", **{fmt.ENV_LOSSES: "1"})

    made = steps(ran)
    (on,) = said(ran, "on")
    first = on["updates"] * passes
    assert len(made) == 24 * passes
    assert [autocast for _, autocast in made] == [False] * first + [True] * (len(made) - first)
    # Of a step's passes the mean; transformers has divided each by their number.
    means = [sum(loss for loss, _ in made[at : at + passes]) / passes**2 for at in range(0, len(made), passes)]
    assert losses(ran) == pytest.approx(means, rel=1e-6)
    assert {record.b for record in ran.trainer.of("LOSS")} == {passes}
    assert ran.trainer.faults == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "options", "reason"),
    [
        (LIGHTNING, 'precision="bf16-mixed"', "the script uses torch.autocast itself"),
        pytest.param(LIGHTNING, 'precision="64-true"', "not all parameters are float32 (float64)", marks=pytest.mark.nightly),
        pytest.param(LIGHTNING, 'precision="bf16-true"', "not all parameters are float32 (bfloat16)", marks=pytest.mark.nightly),
        (TRANSFORMERS, "bf16=True", "the script uses torch.autocast itself"),
    ],
    ids=["bf16-mixed", "64-true", "bf16-true", "transformers bf16"],
)
def test_it_is_refused_beside_a_precision_setting(servers: Servers, tmp_path: Path, script: str, options: str, reason: str) -> None:
    ran = run_always(server_of(servers, script), tmp_path, script.replace("OPTIONS", options), "autocast")

    assert ran.code == 0, ran.err
    assert [note["reason"] for note in said(ran, "not applicable")] == [reason]
    assert said(ran, "on") == []


@pytest.mark.slow
def test_a_compiled_model_is_left_alone(server: Server, tmp_path: Path) -> None:
    script = """
import torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.compile(torch.nn.Linear(8, 1), backend="eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for inputs, in DataLoader(TensorDataset(torch.randn(96, 8)), batch_size=4):
    optimizer.zero_grad()
    model(inputs).mean().backward()
    optimizer.step()
"""
    ran = run_always(server, tmp_path, script, "autocast")

    assert ran.code == 0, ran.err
    assert [note["reason"] for note in said(ran, "not applicable")] == [
        "the training is compiled, and would be compiled again under autocast"
    ]
