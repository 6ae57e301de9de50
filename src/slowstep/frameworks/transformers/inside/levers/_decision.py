"""What the Trainer of Hugging Face decides between two steps: whether to log, to validate and to save."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from slowstep.frameworks.transformers.inside._framework import TRAINER
from slowstep.levers._calls.handing import Function, Handler
from slowstep.levers._calls.left_out import CallsOff
from slowstep.levers._calls.targets import known_function

_DECIDES: Final = "Trainer._maybe_log_save_evaluate"


def decision(change: CallsOff, wish: str, name: str) -> Iterator[tuple[Function, Handler]]:
    """Has it go without what its control asks for (`should_log`, `should_evaluate`, `should_save`)."""

    def handler(call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        control = args[0].control
        if getattr(control, wish) and change.leaves_out():
            setattr(control, wish, False)
            change.count(name)
        return call(*args, **kwargs)

    if (function := known_function(TRAINER, _DECIDES)) is not None:
        yield function, handler
