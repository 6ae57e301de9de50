"""`torch.save` and safetensors' `save_file` are left out."""

from __future__ import annotations

from slowstep.levers._calls.checkpoints import CheckpointOff, FileFunction
from slowstep.levers.checkpoint_off import LEVER
from slowstep.record.experiment.lever import Implementation


class TorchCheckpointOff(CheckpointOff):
    """In a loop of the script's own, and below a trainer."""

    saves: tuple[FileFunction, ...] = (
        FileFunction("torch.serialization", "save", 1, "f", "obj"),
        FileFunction("safetensors.torch", "save_file", 1, "filename", "tensors"),
    )
    loads = (FileFunction("torch.serialization", "load", 0, "f"), FileFunction("safetensors.torch", "load_file", 0, "filename"))


IMPLEMENTATION = Implementation(lever=LEVER, prepare=TorchCheckpointOff.prepare)
