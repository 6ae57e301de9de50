"""Nothing is logged, with torch's SummaryWriter neither."""

from __future__ import annotations

from slowstep.levers._calls.logs import LoggingOff
from slowstep.levers.logging_off import LEVER
from slowstep.record.experiment.lever import Implementation


class TorchLoggingOff(LoggingOff):
    """In a loop of the script's own, and below a trainer."""

    functions = (*LoggingOff.functions, ("torch.utils.tensorboard.writer", "SummaryWriter.add_", None))


IMPLEMENTATION = Implementation(lever=LEVER, prepare=TorchLoggingOff.prepare)
