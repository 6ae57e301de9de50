"""Nothing is logged, by Lightning's loggers neither."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from slowstep.frameworks.lightning.inside._framework import FRAMEWORK, PACKAGES
from slowstep.frameworks.torch.inside.levers.logging_off import TorchLoggingOff
from slowstep.levers._calls.handing import Function, Handler
from slowstep.levers.logging_off import LEVER
from slowstep.record.experiment.lever import Implementation


class LightningLoggingOff(TorchLoggingOff):
    """The Trainer's loggers too."""

    def replaced(self) -> Iterable[tuple[Function, Handler]]:
        """What hands metrics to the loggers, and the loggers that the Trainer has by now."""
        yield from super().replaced()
        for package in PACKAGES:
            connector = f"{package}.trainer.connectors.logger_connector.logger_connector"
            name = "_LoggerConnector.log_metrics"
            yield from self.one(connector, name, self.nothing("Trainer.loggers", meant=_has_loggers))
        for logger in getattr(FRAMEWORK.trainer(), "loggers", ()):
            kind = type(logger)
            yield from self.one(kind.__module__, f"{kind.__qualname__}.log_metrics", self.nothing(f"{kind.__name__}.log_metrics"))


def _has_loggers(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """_LoggerConnector.log_metrics(self, metrics, ...), which is called with nothing to log as well."""
    metrics = args[1] if len(args) > 1 else kwargs.get("metrics")
    return bool(metrics and args[0].trainer.loggers)


IMPLEMENTATION = Implementation(lever=LEVER, prepare=LightningLoggingOff.prepare)
