"""The training does not stop to validate.

What it changes:
    Trainers of Lightning and Hugging Face do not begin validations, as by their own switches. In a loop of the script's own, a loader that
    is read several batches at a time between two updates ends after its first batch, for scripts divide by the number of batches. With
    `:every=k` one validation in k is whole.
What it answers:
    What the training would gain without validation, or with validation every k times as many steps. In a loop of the script's own it is a
    little less: the first batch of each validation, and the start of its loader's workers, are still paid for (facts.batches_kept).
When it has no meaning:
    Where no such loader was read before the experiment began: a validation that reads arrays, or the training's own loader, or comes once
    an epoch of minutes. Use stub=MODULE:FUNCTION on the function that validates.
How it is undone:
    The functions of torch or of the framework are the same objects all the time, and get their own code back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from slowstep.levers._calls_off import CallsOff
from slowstep.levers._handing import Call, Function, Handler
from slowstep.levers._targets import known_function
from slowstep.levers._trainers import LIGHTNING, decision, huggingface_trainer, lightning_trainer
from slowstep.record.lever import Change, Lever, NotApplicable, Spec
from slowstep.record.training import Training


class FrameworkValidationOff(CallsOff):
    """Has the framework's own loop decide not to validate."""

    def replaced(self) -> Iterable[tuple[Function, Handler]]:
        """Where the decision is made."""
        yield from decision(self, "should_evaluate", "Trainer.evaluate")
        for package in LIGHTNING:
            function = known_function(f"{package}.loops.training_epoch_loop", "_TrainingEpochLoop._should_check_val_fx")
            if function is not None:
                yield function, self._not_now

    def _not_now(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        due = call(*args, **kwargs)
        if not (due and self.leaves_out()):
            return due
        self.count("Trainer.validate")
        return False


class LoopValidationOff(CallsOff):
    """Has loaders end after their first batch. Raises NotApplicable where none of them validates."""

    def __init__(self, training: Training, every: int) -> None:
        super().__init__(training, every)
        if not training.validates:
            raise NotApplicable(
                "no loader but the training's was read several batches at a time between two updates; "
                "use stub=MODULE:FUNCTION on the function that validates"
            )

    def replaced(self) -> Iterable[tuple[Function, Handler]]:
        """What gives the next batch of any loader."""
        function = known_function("torch.utils.data.dataloader", "_BaseDataLoaderIter.__next__")
        if function is None:
            raise NotApplicable("this version of torch has no _BaseDataLoaderIter.__next__")
        yield function, self._next

    def facts(self) -> Mapping[str, Any]:
        """Batches that were read all the same."""
        return {**super().facts(), "batches_kept": self.effect}

    def _next(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        iterator = args[0]
        if iterator._num_yielded and self.training.is_validation(iterator) and self.leaves_out():
            self.count("validation")
            raise StopIteration
        return call(*args, **kwargs)


def prepare(training: Training, spec: Spec) -> Change:
    """By the framework's own switch where there is one. Raises NotApplicable where no loader validates."""
    if lightning_trainer() is not None or huggingface_trainer() is not None:
        return FrameworkValidationOff(training, spec.every)
    return LoopValidationOff(training, spec.every)


LEVER = Lever(name="validation-off", every=True, long_steps="its own", prepare=prepare)
