"""Checkpoints of Lightning's Trainer are left out, and those that the script writes with torch."""

from __future__ import annotations

from slowstep.frameworks.lightning.inside._framework import PACKAGES
from slowstep.frameworks.torch.inside.levers.checkpoint_off import TorchCheckpointOff
from slowstep.levers._calls.checkpoints import FileFunction
from slowstep.levers.checkpoint_off import LEVER
from slowstep.record.experiment.lever import Implementation


class LightningCheckpointOff(TorchCheckpointOff):
    """Those of the Trainer too."""

    saves = (
        *TorchCheckpointOff.saves,
        *(FileFunction(f"{package}.trainer.trainer", "Trainer.save_checkpoint", 1, "filepath") for package in PACKAGES),
    )


IMPLEMENTATION = Implementation(lever=LEVER, prepare=LightningCheckpointOff.prepare)
