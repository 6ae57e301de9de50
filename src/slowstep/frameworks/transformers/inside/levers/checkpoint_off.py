"""Checkpoints of Hugging Face's Trainer are left out, and those that the script writes with torch."""

from __future__ import annotations

from collections.abc import Iterable

from slowstep.frameworks.torch.inside.levers.checkpoint_off import TorchCheckpointOff
from slowstep.frameworks.transformers.inside.levers._decision import decision
from slowstep.levers._calls.handing import Function, Handler
from slowstep.levers.checkpoint_off import LEVER
from slowstep.record.experiment.lever import Implementation


class TransformersCheckpointOff(TorchCheckpointOff):
    """Those of the Trainer too."""

    def replaced(self) -> Iterable[tuple[Function, Handler]]:
        """Where the Trainer decides to write one, before what writes it."""
        yield from decision(self, "should_save", "Trainer._save_checkpoint")
        yield from super().replaced()


IMPLEMENTATION = Implementation(lever=LEVER, prepare=TransformersCheckpointOff.prepare)
