"""Callbacks of Hugging Face's Trainer are not called."""

from __future__ import annotations

from typing import Any

from slowstep.frameworks.transformers.inside._framework import FRAMEWORK
from slowstep.levers._calls.callbacks import CallbacksOff
from slowstep.levers.callbacks_off import LEVER
from slowstep.record.experiment.lever import Implementation


class TransformersCallbacksOff(CallbacksOff):
    """Those of the Trainer's handler."""

    methods = (
        *("on_step_begin", "on_step_end", "on_substep_end", "on_pre_optimizer_step", "on_optimizer_step", "on_epoch_end", "on_log"),
        *("on_evaluate", "on_prediction_step", "on_save"),
    )
    base = "TrainerCallback"
    packages = FRAMEWORK.packages

    def holder(self) -> Any:
        """The Trainer's handler."""
        return FRAMEWORK.trainer().callback_handler


IMPLEMENTATION = Implementation(lever=LEVER, prepare=TransformersCallbacksOff.prepare)
