"""Hugging Face's Trainer does not begin validations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from slowstep.frameworks.transformers.inside.levers._decision import decision, more_steps
from slowstep.levers._calls.handing import Function, Handler
from slowstep.levers._calls.left_out import CallsOff
from slowstep.levers.validation_off import LEVER
from slowstep.record.experiment.lever import Implementation


class TransformersValidationOff(CallsOff):
    """Has the Trainer decide not to validate."""

    def as_arguments(self, every: int) -> Mapping[str, Any]:
        """`eval_steps`."""
        return more_steps("eval_strategy", "eval_steps", every)

    def replaced(self) -> Iterable[tuple[Function, Handler]]:
        """Where the decision is made."""
        yield from decision(self, "should_evaluate", "Trainer.evaluate")


IMPLEMENTATION = Implementation(lever=LEVER, prepare=TransformersValidationOff.prepare)
