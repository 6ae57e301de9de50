"""Checkpoints of Hugging Face's Trainer are left out, and those that the script writes with torch."""

from __future__ import annotations

from collections.abc import Iterable

from slowstep.frameworks.torch.inside.levers.checkpoint_off import TorchCheckpointOff
from slowstep.frameworks.transformers.inside.levers._decision import decision
from slowstep.levers._calls.handing import Function, Handler
from slowstep.levers.checkpoint_off import LEVER
from slowstep.record.experiment.lever import Change, Implementation, LeverSpec
from slowstep.record.experiment.training import Training


class TransformersCheckpointOff(TorchCheckpointOff):
    """Those of the Trainer too."""

    def replaced(self) -> Iterable[tuple[Function, Handler]]:
        """Where the Trainer decides to write one, before what writes it."""
        yield from decision(self, "should_save", "Trainer._save_checkpoint")
        yield from super().replaced()


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Every script can be asked for it: where nothing is written, nothing is left out, and the effect is 0.

    Raises NotApplicable where the files that it leaves stay.
    """
    return TransformersCheckpointOff(training, spec.every)


IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare)
