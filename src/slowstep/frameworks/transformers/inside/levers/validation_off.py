"""Hugging Face's Trainer does not begin validations."""

from __future__ import annotations

from collections.abc import Iterable

from slowstep.frameworks.transformers.inside.levers._decision import decision
from slowstep.levers._calls.handing import Function, Handler
from slowstep.levers._calls.left_out import CallsOff
from slowstep.levers.validation_off import LEVER
from slowstep.record.experiment.lever import Change, Implementation, LeverSpec
from slowstep.record.experiment.training import Training


class TransformersValidationOff(CallsOff):
    """Has the Trainer decide not to validate."""

    def replaced(self) -> Iterable[tuple[Function, Handler]]:
        """Where the decision is made."""
        yield from decision(self, "should_evaluate", "Trainer.evaluate")


def prepare(training: Training, spec: LeverSpec) -> Change:
    """By the Trainer's own switch."""
    return TransformersValidationOff(training, spec.every)


IMPLEMENTATION = Implementation(lever=LEVER, prepare=prepare)
