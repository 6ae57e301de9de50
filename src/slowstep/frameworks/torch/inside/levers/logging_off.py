"""Nothing is logged, with torch's SummaryWriter neither."""

from __future__ import annotations

from slowstep.levers._calls.logs import LoggingOff
from slowstep.levers.logging_off import LEVER
from slowstep.record.experiment.lever import Change, Implementation, LeverSpec
from slowstep.record.experiment.training import Training


class TorchLoggingOff(LoggingOff):
    """In a loop of the script's own, and below a trainer."""

    functions = (*LoggingOff.functions, ("torch.utils.tensorboard.writer", "SummaryWriter.add_", None))


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Every script can be asked for it: where nothing is logged, nothing is left out, and the effect is 0."""
    return TorchLoggingOff(training, spec.every)


IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare)
