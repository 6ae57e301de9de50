"""The trainer of a framework that the training runs in, found on the stack of the calling thread."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType, ModuleType
from typing import Any, Final

from slowstep.levers._calls.handing import Function, Handler
from slowstep.levers._calls.targets import known_function

LIGHTNING: Final = ("lightning.pytorch", "pytorch_lightning")
HUGGINGFACE: Final = "transformers.trainer"
# Where the Trainer of Hugging Face decides whether to log, to validate and to save.
_DECIDES: Final = "Trainer._maybe_log_save_evaluate"


def lightning_trainer() -> Any:
    """The Trainer of either of Lightning's packages whose `fit` runs; None where none does."""
    for package in LIGHTNING:
        if (found := _on_stack(sys.modules.get(f"{package}.trainer.trainer"), "fit")) is not None:
            return found
    return None


def huggingface_trainer() -> Any:
    """The Trainer of Hugging Face whose `train` runs; None where none does."""
    return _on_stack(sys.modules.get(HUGGINGFACE), "train")


def _on_stack(module: ModuleType | None, method: str) -> Any:
    kind = getattr(module, "Trainer", None)
    if module is None or kind is None:
        return None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        # Only the trainer's own frames are looked into: to look into one keeps its variables alive, and batches may be among the script's.
        if frame.f_code.co_name == method and frame.f_code.co_filename == module.__file__ and isinstance(frame.f_locals.get("self"), kind):
            return frame.f_locals["self"]
        frame = frame.f_back
    return None


def decision(change: Any, wish: str, name: str) -> Iterator[tuple[Function, Handler]]:
    """Has Hugging Face's Trainer go without what its control asks for (`should_log`, `should_evaluate`, `should_save`)."""

    def handler(call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        control = args[0].control
        if getattr(control, wish) and change.leaves_out():
            setattr(control, wish, False)
            change.count(name)
        return call(*args, **kwargs)

    if (function := known_function(HUGGINGFACE, _DECIDES)) is not None:
        yield function, handler
