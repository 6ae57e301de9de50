"""Nothing is logged, by Hugging Face's Trainer neither."""

from __future__ import annotations

from collections.abc import Iterable

from slowstep.frameworks.torch.inside.levers.logging_off import TorchLoggingOff
from slowstep.frameworks.transformers.inside._framework import TRAINER
from slowstep.frameworks.transformers.inside.levers._decision import decision
from slowstep.levers._calls.handing import Function, Handler
from slowstep.levers.logging_off import LEVER
from slowstep.record.experiment.lever import Implementation


class TransformersLoggingOff(TorchLoggingOff):
    """The Trainer's log too."""

    functions = (*TorchLoggingOff.functions, (TRAINER, "Trainer.log", None))

    def replaced(self) -> Iterable[tuple[Function, Handler]]:
        """Where the Trainer decides to log, before what logs."""
        yield from decision(self, "should_log", "Trainer.log")
        yield from super().replaced()


IMPLEMENTATION = Implementation(lever=LEVER, prepare=TransformersLoggingOff.prepare)
