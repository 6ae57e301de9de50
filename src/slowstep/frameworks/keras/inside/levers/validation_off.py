"""Keras' fit does not begin validations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from slowstep.frameworks.keras.inside._framework import FRAMEWORK
from slowstep.levers._calls.handing import Call, Function, Handler
from slowstep.levers._calls.left_out import CallsOff
from slowstep.levers._calls.targets import known_function
from slowstep.levers.validation_off import LEVER
from slowstep.record.experiment.lever import Implementation, NotApplicable
from slowstep.record.experiment.training import Training

NO_FIT: Final = "no fit of Keras runs: in a loop of the script's own use stub=MODULE:FUNCTION on the function that validates"
NO_DECISION: Final = "this version of Keras has nothing that decides whether to validate (Trainer._should_eval)"


def _decision() -> Function | None:
    return known_function("keras.src.trainers.trainer", "Trainer._should_eval")


class KerasValidationOff(CallsOff):
    """Has `fit` decide not to validate, as at other epochs than those of its `validation_freq`. Raises NotApplicable where none runs."""

    def __init__(self, training: Training, every: int) -> None:
        super().__init__(training, every)
        if FRAMEWORK.running is None or FRAMEWORK.running() is None:
            raise NotApplicable(NO_FIT)
        if _decision() is None:
            raise NotApplicable(NO_DECISION)

    def replaced(self) -> Iterable[tuple[Function, Handler]]:
        """Where the decision is made."""
        if (function := _decision()) is not None:
            yield function, self._not_now

    def _not_now(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        due = call(*args, **kwargs)
        if not (due and self.leaves_out()):
            return due
        self.count("Model.evaluate")
        return False


IMPLEMENTATION = Implementation(lever=LEVER, prepare=KerasValidationOff.prepare)
