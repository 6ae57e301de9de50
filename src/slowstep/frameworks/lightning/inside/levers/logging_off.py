"""Nothing is logged, by Lightning's loggers neither."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from slowstep.frameworks.lightning.inside._framework import FRAMEWORK, PACKAGES
from slowstep.frameworks.torch.inside.levers.logging_off import TorchLoggingOff
from slowstep.levers._calls.handing import Function, Handler
from slowstep.levers.logging_off import LEVER
from slowstep.record.experiment.lever import Implementation

_LOGGERS: Final = "Trainer.loggers"
_LOG_METRICS: Final = "log_metrics"


class LightningLoggingOff(TorchLoggingOff):
    """The Trainer's loggers too."""

    def as_arguments(self, every: int) -> Mapping[str, Any]:
        """`log_every_n_steps`."""
        own = getattr(FRAMEWORK.trainer(), "log_every_n_steps", None)
        return {"log_every_n_steps": every * own} if type(own) is int and own > 0 else {}

    def is_of_trainer(self, name: str) -> bool:
        """What its loggers are given, and not what the script logs itself."""
        return name == _LOGGERS or name.endswith(f".{_LOG_METRICS}")

    def replaced(self) -> Iterable[tuple[Function, Handler]]:
        """What hands metrics to the loggers, and the loggers that the Trainer has by now."""
        yield from super().replaced()
        for package in PACKAGES:
            connector = f"{package}.trainer.connectors.logger_connector.logger_connector"
            name = "_LoggerConnector.log_metrics"
            yield from self.one(connector, name, self.nothing(_LOGGERS, meant=_has_loggers))
        for logger in getattr(FRAMEWORK.trainer(), "loggers", ()):
            kind = type(logger)
            yield from self.one(kind.__module__, f"{kind.__qualname__}.{_LOG_METRICS}", self.nothing(f"{kind.__name__}.{_LOG_METRICS}"))


def _has_loggers(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """_LoggerConnector.log_metrics(self, metrics, ...), which is called with nothing to log as well."""
    metrics = args[1] if len(args) > 1 else kwargs.get("metrics")
    return bool(metrics and args[0].trainer.loggers)


IMPLEMENTATION = Implementation(lever=LEVER, prepare=LightningLoggingOff.prepare)
