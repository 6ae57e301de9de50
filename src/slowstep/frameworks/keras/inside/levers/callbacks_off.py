"""Callbacks of Keras' fit are not called."""

from __future__ import annotations

from typing import Any

from slowstep.frameworks.keras.inside._framework import FRAMEWORK
from slowstep.levers._calls.callbacks import CallbacksOff
from slowstep.levers.callbacks_off import LEVER
from slowstep.record.experiment.lever import Implementation, NotApplicable


class KerasCallbacksOff(CallbacksOff):
    """Those of the list that was told of the last batch."""

    methods = (
        *("on_train_batch_begin", "on_train_batch_end", "on_epoch_end", "on_test_begin", "on_test_end"),
        *("on_test_batch_begin", "on_test_batch_end"),
    )
    base = "Callback"
    packages = FRAMEWORK.packages

    def holder(self) -> Any:
        """That list. Raises NotApplicable where no `fit` runs."""
        running = None if FRAMEWORK.running is None else FRAMEWORK.running()
        if running is None:
            raise NotApplicable("no fit of Keras runs: in a loop of the script's own use stub=MODULE:FUNCTION")
        return running


IMPLEMENTATION = Implementation(lever=LEVER, prepare=KerasCallbacksOff.prepare)
