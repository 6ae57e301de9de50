"""Nothing is logged, by Hugging Face's Trainer neither."""

from __future__ import annotations

from collections.abc import Iterable

from slowstep.frameworks.torch.inside.levers.logging_off import TorchLoggingOff
from slowstep.frameworks.transformers.inside._framework import TRAINER
from slowstep.frameworks.transformers.inside.levers._decision import decision
from slowstep.levers._calls.handing import Function, Handler
from slowstep.levers.logging_off import LEVER
from slowstep.record.experiment.lever import Change, Implementation, LeverSpec
from slowstep.record.experiment.training import Training


class TransformersLoggingOff(TorchLoggingOff):
    """The Trainer's log too."""

    functions = (*TorchLoggingOff.functions, (TRAINER, "Trainer.log", None))

    def replaced(self) -> Iterable[tuple[Function, Handler]]:
        """Where the Trainer decides to log, before what logs."""
        yield from decision(self, "should_log", "Trainer.log")
        yield from super().replaced()


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Every script can be asked for it: where nothing is logged, nothing is left out, and the effect is 0."""
    return TransformersLoggingOff(training, spec.every)


IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare)
