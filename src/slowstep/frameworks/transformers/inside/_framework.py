"""What transformers is to the recorder: it stands on torch, and its frames are none of the user's."""

from __future__ import annotations

from typing import Any, Final

from slowstep.record.framework import Framework, caller

TRAINER: Final = "transformers.trainer"


class Transformers(Framework):
    """It has a loop, and nothing that computes."""

    name = "transformers"
    packages = ("transformers",)
    steering_callbacks = frozenset({"DefaultFlowCallback", "EarlyStoppingCallback"})

    def trainer(self) -> Any:
        """The Trainer whose `train` runs."""
        return caller(TRAINER, "Trainer", "train")


FRAMEWORK = Transformers()
