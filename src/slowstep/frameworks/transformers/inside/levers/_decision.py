"""What the Trainer of Hugging Face decides between two steps: whether to log, to validate and to save."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from slowstep.frameworks.transformers.inside._framework import FRAMEWORK, TRAINER
from slowstep.levers._calls.handing import Function, Handler
from slowstep.levers._calls.left_out import CallsOff
from slowstep.levers._calls.targets import known_function

_DECIDES: Final = "Trainer._maybe_log_save_evaluate"
_BY_STEPS: Final = "steps"


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


def more_steps(strategy: str, steps: str, every: int) -> Mapping[str, Any]:
    """The argument `steps` that decides so once in `every` times as many steps; nothing where the `strategy` is another, or steps are a
    share of all. Checkpoints that the best model is chosen of come with validations: neither can be had by itself.
    """
    arguments = getattr(FRAMEWORK.trainer(), "args", None)
    own = getattr(arguments, steps, None)
    is_by_steps = getattr(getattr(arguments, strategy, None), "value", None) == _BY_STEPS
    is_tied = steps != "logging_steps" and getattr(arguments, "load_best_model_at_end", False)
    if not is_by_steps or is_tied or not isinstance(own, (int, float)) or own < 1 or own != int(own):
        return {}
    return {steps: every * int(own)}
