"""Calls that log and print, left out."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

from slowstep.levers._calls.handing import Function, Handler
from slowstep.levers._calls.left_out import CallsOff
from slowstep.levers._calls.targets import known_function

# Not log_model: that one returns what it logged, and is a checkpoint.
_MLFLOW: Final = ("metric", "param", "artifact", "text", "dict", "image", "figure", "table")
_FUNCTIONS: Final = (
    ("tensorboardX.writer", "SummaryWriter.add_", None),
    ("wandb.sdk.wandb_run", "Run.log", None),
    *(("mlflow.tracking.fluent", f"log_{what}", None) for what in _MLFLOW),
    ("loguru._logger", "Logger._log", None),
    ("csv", "DictWriter.writerow", 0),
    ("tqdm.std", "tqdm.display", True),
)
_ERROR: Final = 40
_REAL: Final = (1, 2)


class LoggingOff(CallsOff):
    """Leaves out what logs and prints.

    `functions`: module, the beginning of the names of its functions or of a class's methods, and what they return.
    """

    functions: tuple[tuple[str, str, object], ...] = _FUNCTIONS

    def replaced(self) -> Iterable[tuple[Function, Handler]]:
        """Whatever of it the script has imported so far."""
        for module, beginning, result in self.functions:
            for name in _names(module, beginning):
                yield from self.one(module, name, self.nothing(name, result))
        yield from self.one("logging", "Logger._log", self.nothing("logging.Logger", meant=_is_no_error))
        yield from self.one("builtins", "print", self.nothing("print", meant=_is_to_the_terminal))

    def one(self, module: str, path: str, handler: Handler) -> Iterator[tuple[Function, Handler]]:
        """A function and its handler, where the script has imported it."""
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
