"""Checkpoints of Lightning's Trainer are left out, and those that the script writes with torch."""

from __future__ import annotations

from slowstep.frameworks.lightning.inside._framework import PACKAGES
from slowstep.frameworks.torch.inside.levers.checkpoint_off import TorchCheckpointOff
from slowstep.levers._calls.checkpoints import FileFunction
from slowstep.levers.checkpoint_off import LEVER
from slowstep.record.experiment.lever import Change, Implementation, LeverSpec
from slowstep.record.experiment.training import Training


class LightningCheckpointOff(TorchCheckpointOff):
    """Those of the Trainer too."""

    saves = (
        *TorchCheckpointOff.saves,
        *(FileFunction(f"{package}.trainer.trainer", "Trainer.save_checkpoint", 1, "filepath") for package in PACKAGES),
    )


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Every script can be asked for it: where nothing is written, nothing is left out, and the effect is 0.

    Raises NotApplicable where the files that it leaves stay.
    """
    return LightningCheckpointOff(training, spec.every)


IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare)
