"""Callbacks of Hugging Face's Trainer are not called."""

from __future__ import annotations

from slowstep.frameworks.transformers.inside._framework import FRAMEWORK
from slowstep.levers._calls.callbacks import CallbacksOff
from slowstep.levers.callbacks_off import LEVER
from slowstep.record.experiment.lever import Change, Implementation, LeverSpec
from slowstep.record.experiment.training import Training


class TransformersCallbacksOff(CallbacksOff):
    """Those of the Trainer's handler."""

    methods = (
        *("on_step_begin", "on_step_end", "on_substep_end", "on_pre_optimizer_step", "on_optimizer_step", "on_epoch_end", "on_log"),
        *("on_evaluate", "on_prediction_step", "on_save"),
    )
    base = "TrainerCallback"
    packages = FRAMEWORK.packages


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Find the callbacks. Raises NotApplicable where none is meant."""
    return TransformersCallbacksOff(training, spec, FRAMEWORK.trainer().callback_handler)


IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare)
