"""Callbacks of Lightning's Trainer are not called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slowstep.frameworks.lightning.inside._framework import FRAMEWORK
from slowstep.levers._calls.callbacks import CallbacksOff
from slowstep.levers.callbacks_off import LEVER
from slowstep.record.experiment.lever import Implementation, LeverSpec
from slowstep.record.experiment.made_calls import TRAINER
from slowstep.record.experiment.training import Training

_BARS: Final = ("TQDMProgressBar", "RichProgressBar")


class LightningCallbacksOff(CallbacksOff):
    """Those of the Trainer."""

    methods = (
        *("on_train_batch_start", "on_train_batch_end", "on_before_backward", "on_after_backward", "on_before_optimizer_step"),
        *("on_before_zero_grad", "on_train_epoch_end", "on_validation_batch_start", "on_validation_batch_end", "on_validation_epoch_end"),
        "on_validation_end",
    )
    base = "Callback"
    packages = FRAMEWORK.packages

    def __init__(self, training: Training, spec: LeverSpec) -> None:
        super().__init__(training, spec)
        self._is_bar = spec.value in _BARS and spec.every == 1

    def facts(self) -> Mapping[str, Any]:
        """A progress bar has an argument of its own."""
        bar = {"arguments": {"enable_progress_bar": False}, "arguments_of": TRAINER} if self._is_bar else {}
        return {**super().facts(), **bar}

    def holder(self) -> Any:
        """The Trainer itself."""
        return FRAMEWORK.trainer()


IMPLEMENTATION = Implementation(lever=LEVER, prepare=LightningCallbacksOff.prepare)
