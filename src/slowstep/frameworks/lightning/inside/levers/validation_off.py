"""Lightning's Trainer does not begin validations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from slowstep.frameworks.lightning.inside._framework import PACKAGES
from slowstep.levers._calls.handing import Call, Function, Handler
from slowstep.levers._calls.left_out import CallsOff
from slowstep.levers._calls.targets import known_function
from slowstep.levers.validation_off import LEVER
from slowstep.record.experiment.lever import Implementation


class LightningValidationOff(CallsOff):
    """Has the loop decide not to validate."""

    def replaced(self) -> Iterable[tuple[Function, Handler]]:
        """Where the decision is made."""
        for package in PACKAGES:
            function = known_function(f"{package}.loops.training_epoch_loop", "_TrainingEpochLoop._should_check_val_fx")
            if function is not None:
                yield function, self._not_now

    def _not_now(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        due = call(*args, **kwargs)
        if not (due and self.leaves_out()):
            return due
        self.count("Trainer.validate")
        return False


IMPLEMENTATION = Implementation(lever=LEVER, prepare=LightningValidationOff.prepare)
