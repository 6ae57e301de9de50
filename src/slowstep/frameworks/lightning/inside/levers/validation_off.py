"""Lightning's Trainer does not begin validations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from slowstep.frameworks.lightning.inside._framework import FRAMEWORK, PACKAGES
from slowstep.levers._calls.handing import Call, Function, Handler
from slowstep.levers._calls.left_out import CallsOff
from slowstep.levers._calls.targets import known_function
from slowstep.levers.validation_off import LEVER
from slowstep.record.experiment.lever import Implementation


class LightningValidationOff(CallsOff):
    """Has the loop decide not to validate."""

    def as_arguments(self, every: int) -> Mapping[str, Any]:
        """`check_val_every_n_epoch` where it validates once an epoch, else `val_check_interval`; of more batches than an epoch has both."""
        trainer = FRAMEWORK.trainer()
        epochs, interval = getattr(trainer, "check_val_every_n_epoch", None), getattr(trainer, "val_check_interval", None)
        if type(interval) is float and type(epochs) is int:
            return {"check_val_every_n_epoch": every * epochs} if interval == 1 else _share(every * interval)
        if type(interval) is not int or epochs not in (1, None):
            return {}
        batches, fit = every * interval, getattr(trainer, "num_training_batches", 0)
        return {"val_check_interval": batches} | ({"check_val_every_n_epoch": None} if epochs == 1 and batches > fit else {})

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


def _share(share: float) -> Mapping[str, Any]:
    """Of an epoch's batches; more than all of them it does not take."""
    return {"val_check_interval": share} if share <= 1 else {}


IMPLEMENTATION = Implementation(lever=LEVER, prepare=LightningValidationOff.prepare)
