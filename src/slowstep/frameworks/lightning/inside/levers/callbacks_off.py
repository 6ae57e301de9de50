"""Callbacks of Lightning's Trainer are not called."""

from __future__ import annotations

from typing import Any

from slowstep.frameworks.lightning.inside._framework import FRAMEWORK
from slowstep.levers._calls.callbacks import CallbacksOff
from slowstep.levers.callbacks_off import LEVER
from slowstep.record.experiment.lever import Implementation


class LightningCallbacksOff(CallbacksOff):
    """Those of the Trainer."""

    methods = (
        *("on_train_batch_start", "on_train_batch_end", "on_before_backward", "on_after_backward", "on_before_optimizer_step"),
        *("on_before_zero_grad", "on_train_epoch_end", "on_validation_batch_start", "on_validation_batch_end", "on_validation_epoch_end"),
        "on_validation_end",
    )
    base = "Callback"
    packages = FRAMEWORK.packages

    def holder(self) -> Any:
        """The Trainer itself."""
        return FRAMEWORK.trainer()


IMPLEMENTATION = Implementation(lever=LEVER, prepare=LightningCallbacksOff.prepare)
