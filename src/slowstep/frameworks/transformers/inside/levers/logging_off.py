"""Nothing is logged, by Hugging Face's Trainer neither."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from slowstep.frameworks.torch.inside.levers.logging_off import TorchLoggingOff
from slowstep.frameworks.transformers.inside._framework import TRAINER
from slowstep.frameworks.transformers.inside.levers._decision import decision, more_steps
from slowstep.levers._calls.handing import Function, Handler
from slowstep.levers.logging_off import LEVER
from slowstep.record.experiment.lever import Implementation

_LOGS: Final = "Trainer.log"


class TransformersLoggingOff(TorchLoggingOff):
    """The Trainer's log too."""

    functions = (*TorchLoggingOff.functions, (TRAINER, _LOGS, None))

    def as_arguments(self, every: int) -> Mapping[str, Any]:
        """`logging_steps`."""
        return more_steps("logging_strategy", "logging_steps", every)

    def is_of_trainer(self, name: str) -> bool:
        """Not what the script logs itself."""
        return name == _LOGS

    def replaced(self) -> Iterable[tuple[Function, Handler]]:
        """Where the Trainer decides to log, before what logs."""
        yield from decision(self, "should_log", _LOGS)
        yield from super().replaced()


IMPLEMENTATION = Implementation(lever=LEVER, prepare=TransformersLoggingOff.prepare)
