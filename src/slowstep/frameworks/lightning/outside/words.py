"""How users of Lightning's Trainer write changes; its loaders and optimizers are torch's, made by hooks of the user's."""

from __future__ import annotations

import re

from slowstep.frameworks._remedies import Remedy
from slowstep.frameworks._words import Argument, Code, Excluded, Words
from slowstep.frameworks.torch.outside.words import WORDS as TORCH


def _of_trainer(name: str, value: object = None) -> Argument:
    return Argument(call="Trainer({arguments})", owner="lightning.pytorch:Trainer", name=name, value=value)


def _of_checkpoint(name: str, value: object = None) -> Argument:
    return Argument(call="ModelCheckpoint({arguments})", owner="lightning.pytorch.callbacks:ModelCheckpoint", name=name, value=value)


WORDS = Words(
    name="lightning",
    title="Lightning",
    packages=frozenset({"lightning", "pytorch_lightning", "lightning_fabric", "lightning_utilities"}),
    excluded=(
        Excluded(
            argument="enable_progress_bar",
            value=False,
            names=frozenset({"callbacks"}),
            why="the call is given {name}, one of which may be the progress bar",
        ),
    ),
    code={
        Code.TRAINS: r"[/\\](site|dist)-packages[/\\](pytorch_)?lightning[/\\]",
    },
    # Of its Trainer; a loop that Fabric serves is the script's own.
    loop=re.compile(r"[/\\](pytorch_lightning|lightning[/\\]pytorch)[/\\]loops[/\\]"),
    marks=re.compile(r"(^|[/\\;])(pytorch_lightning|lightning[/\\]pytorch)[/\\]loops[/\\]|^\[pl\]\[(profile|module)\]"),
    rests_on=TORCH,
    # It waits for no copy from pinned memory.
    lacks=frozenset({Remedy.COPY_AHEAD}),
    places={"DataLoader": " in train_dataloader(), or where it is given to fit()", "torch.optim": " in configure_optimizers()"},
    made_in={"DataLoader": "train_dataloader"},
    arguments={
        Remedy.KEEP_LOADER: _of_trainer("reload_dataloaders_every_n_epochs", 0),
        Remedy.ACCUMULATE: _of_trainer("accumulate_grad_batches"),
        Remedy.BFLOAT16: _of_trainer("precision", "bf16-mixed"),
        Remedy.FLOAT16: _of_trainer("precision", "16-mixed"),
        Remedy.DEVICE: _of_trainer("accelerator", "auto"),
        Remedy.VALIDATION_BATCHES: _of_trainer("val_check_interval"),
        Remedy.VALIDATION_EPOCHS: _of_trainer("check_val_every_n_epoch"),
        Remedy.VALIDATION_LENGTH: _of_trainer("limit_val_batches"),
        Remedy.CHECKPOINT_STEPS: _of_checkpoint("every_n_train_steps"),
        Remedy.CHECKPOINT_WEIGHTS: _of_checkpoint("save_weights_only", True),
        Remedy.CHECKPOINT_ASIDE: "Trainer(plugins=[AsyncCheckpointIO()])",
        Remedy.LOG_SELDOM: "call self.log once in {every} steps, or for fewer metrics (log_every_n_steps spares the loggers, not this)",
        Remedy.LOG_BY_EPOCH: "keep values in one tensor, and log what is made of it in on_train_epoch_end",
        Remedy.LOGGING_STEPS: _of_trainer("log_every_n_steps"),
        Remedy.PROGRESS_BAR: _of_trainer("enable_progress_bar", False),
        Remedy.ANOMALY: _of_trainer("detect_anomaly", False),
        Remedy.DETERMINISM: _of_trainer("deterministic", False),
        Remedy.PINNED_BATCHES: "{PIN_MEMORY}",
    },
)
