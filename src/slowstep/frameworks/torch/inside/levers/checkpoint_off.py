"""`torch.save` and safetensors' `save_file` are left out."""

from __future__ import annotations

from slowstep.levers._calls.checkpoints import CheckpointOff, FileFunction
from slowstep.levers.checkpoint_off import LEVER
from slowstep.record.experiment.lever import Change, Implementation, LeverSpec
from slowstep.record.experiment.training import Training


class TorchCheckpointOff(CheckpointOff):
    """In a loop of the script's own, and below a trainer."""

    saves: tuple[FileFunction, ...] = (
        FileFunction("torch.serialization", "save", 1, "f", "obj"),
        FileFunction("safetensors.torch", "save_file", 1, "filename", "tensors"),
    )
    loads = (FileFunction("torch.serialization", "load", 0, "f"), FileFunction("safetensors.torch", "load_file", 0, "filename"))


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Every script can be asked for it: where nothing is written, nothing is left out, and the effect is 0.

    Raises NotApplicable where the files that it leaves stay.
    """
    return TorchCheckpointOff(training, spec.every)


IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare)
