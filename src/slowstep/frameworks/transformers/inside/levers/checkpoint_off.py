"""Checkpoints of Hugging Face's Trainer are left out, and those that the script writes with torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from slowstep.frameworks.torch.inside.levers.checkpoint_off import TorchCheckpointOff
from slowstep.frameworks.transformers.inside.levers._decision import decision, more_steps
from slowstep.levers._calls.handing import Function, Handler
from slowstep.levers.checkpoint_off import LEVER
from slowstep.record.experiment.lever import Implementation

_SAVES: Final = "Trainer._save_checkpoint"


class TransformersCheckpointOff(TorchCheckpointOff):
    """Those of the Trainer too."""

    def as_arguments(self, every: int) -> Mapping[str, Any]:
        """`save_steps`."""
        return more_steps("save_strategy", "save_steps", every)

    def is_of_trainer(self, name: str) -> bool:
        """Not what the script writes itself."""
        return name == _SAVES

    def replaced(self) -> Iterable[tuple[Function, Handler]]:
        """Where the Trainer decides to write one, before what writes it."""
        yield from decision(self, "should_save", _SAVES)
        yield from super().replaced()


IMPLEMENTATION = Implementation(lever=LEVER, prepare=TransformersCheckpointOff.prepare)
