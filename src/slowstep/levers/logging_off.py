"""Nothing is logged and nothing is printed: metrics, log records, progress bars, `print`.

What it changes:
    Loggers of Lightning and of Hugging Face's Trainer, SummaryWriter.add_* (torch, tensorboardX), wandb's Run.log, mlflow.log_*, records of
    the `logging` module below ERROR (loguru's too), csv.DictWriter, tqdm's bars, and `print` to the real standard output or error are left
    out. With `:every=k` one of k steps that log does log.
What it answers:
    What the training would gain without logging, or with logging k times as rarely. facts.left_out says how often each was left out.
When it has no meaning:
    What a script does before it calls a logger (`.item()`, figures, f-strings) is done still, except where a framework does it. Files that
    the script writes itself, `csv.writer` and `sys.stdout.write` are not reached: use stub=MODULE:FUNCTION.
How it is undone:
    The functions are the same objects all the time, and get their own code back; `print` is the built-in one again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

from slowstep.levers._calls.handing import Function, Handler
from slowstep.levers._calls.left_out import CallsOff
from slowstep.levers._calls.targets import known_function
from slowstep.levers._calls.trainers import HUGGINGFACE, LIGHTNING, decision, lightning_trainer
from slowstep.record.experiment.lever import Change, Lever, LeverSpec
from slowstep.record.experiment.training import Training

# Not log_model: that one returns what it logged, and is a checkpoint.
_MLFLOW: Final = ("metric", "param", "artifact", "text", "dict", "image", "figure", "table")
# Module, the beginning of the names of its functions or of a class's methods, and what they return.
_FUNCTIONS: Final = (
    ("torch.utils.tensorboard.writer", "SummaryWriter.add_", None),
    ("tensorboardX.writer", "SummaryWriter.add_", None),
    ("wandb.sdk.wandb_run", "Run.log", None),
    *(("mlflow.tracking.fluent", f"log_{what}", None) for what in _MLFLOW),
    ("loguru._logger", "Logger._log", None),
    ("csv", "DictWriter.writerow", 0),
    ("tqdm.std", "tqdm.display", True),
    (HUGGINGFACE, "Trainer.log", None),
)
_ERROR: Final = 40
_REAL: Final = (1, 2)


class LoggingOff(CallsOff):
    """Leaves out what logs and prints."""

    def replaced(self) -> Iterable[tuple[Function, Handler]]:
        """Whatever of it the script has imported so far."""
        yield from decision(self, "should_log", "Trainer.log")
        for module, beginning, result in _FUNCTIONS:
            for name in _names(module, beginning):
                yield from self._one(module, name, self.nothing(name, result))
        yield from self._one("logging", "Logger._log", self.nothing("logging.Logger", meant=_is_no_error))
        yield from self._one("builtins", "print", self.nothing("print", meant=_is_to_the_terminal))
        for package in LIGHTNING:
            connector = f"{package}.trainer.connectors.logger_connector.logger_connector"
            name = "_LoggerConnector.log_metrics"
            yield from self._one(connector, name, self.nothing("Trainer.loggers", meant=_has_loggers))
        for logger in getattr(lightning_trainer(), "loggers", ()):
            kind = type(logger)
            yield from self._one(kind.__module__, f"{kind.__qualname__}.log_metrics", self.nothing(f"{kind.__name__}.log_metrics"))

    def _one(self, module: str, path: str, handler: Handler) -> Iterator[tuple[Function, Handler]]:
        if (function := known_function(module, path)) is not None:
            yield function, handler


def _names(module: str, beginning: str) -> list[str]:
    """Names in a module, or of a class of it, that begin so."""
    owner: Any = sys.modules.get(module)
    holder, dot, begin = beginning.rpartition(".")
    owner = getattr(owner, holder, None) if dot else owner
    return [] if owner is None else [holder + dot + name for name in vars(owner) if name.startswith(begin)]


def _is_no_error(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Logger._log(self, level, ...): an error says why a script ended."""
    level = args[1] if len(args) > 1 else kwargs.get("level")
    return isinstance(level, int) and level < _ERROR


def _is_to_the_terminal(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """What is printed into a buffer, or a file, the script may want to read."""
    stream = kwargs.get("file") or sys.stdout
    try:
        return stream.fileno() in _REAL
    except (AttributeError, OSError, ValueError):
        # No stream at all, a buffer, or a stream that is closed.
        return False


def _has_loggers(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """_LoggerConnector.log_metrics(self, metrics, ...), which is called with nothing to log as well."""
    metrics = args[1] if len(args) > 1 else kwargs.get("metrics")
    return bool(metrics and args[0].trainer.loggers)


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Every script can be asked for it: where nothing is logged, nothing is left out, and the effect is 0."""
    return LoggingOff(training, spec.every)


LEVER = Lever(name="logging-off", every=True, long_steps="its own", prepare=prepare)
