"""The training does not stop to validate.

What it changes:
    Trainers of Lightning and Hugging Face do not begin validations, as by their own switches. In a loop of the script's own, a loader that
    is read several batches at a time between two updates ends after its first batch, for scripts divide by the number of batches. With
    `:every=k` one validation in k is whole.
What it answers:
    What the training would gain without validation, or with validation every k times as many steps. In a loop of the script's own the
    start of the loader's workers and the first batch of each validation are still paid for (facts.batches_kept): of n batches some 1/n.
    How long they take is measured (facts.kept_ns), and the gain lies between that with them and that without them. What a validation does
    after its last batch is paid for too, and not measured.
When it has no meaning:
    Where no such loader was read before the experiment began: a validation that reads arrays, or the training's own loader, or comes once
    an epoch of minutes; and where a validation reads a single batch. Use stub=MODULE:FUNCTION on the function that validates.
How it is undone:
    The functions of torch or of the framework are the same objects all the time, and get their own code back.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import Any, Final

from slowstep.levers._calls.handing import Call, Function, Handler
from slowstep.levers._calls.left_out import CallsOff
from slowstep.levers._calls.targets import known_function
from slowstep.levers._calls.trainers import LIGHTNING, decision, huggingface_trainer, lightning_trainer
from slowstep.record.experiment.lever import Change, Lever, LeverSpec, NotApplicable
from slowstep.record.experiment.training import Training
from slowstep.record.recorder import now

_USE_STUB: Final = "use stub=MODULE:FUNCTION on the function that validates"


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
            raise NotApplicable(f"no loader but the training's was read several batches at a time between two updates; {_USE_STUB}")
        if training.longest_validation < 2:
            raise NotApplicable(f"a validation reads a single batch, and the first of each is read all the same; {_USE_STUB}")
        # When each iterator was asked for, and what was paid for all the same in counted steps.
        self._begun_ns: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._is_counting, self._kept, self._kept_ns = False, 0, 0

    def on(self) -> None:
        """End validations after their first batch."""
        self._is_counting = False
        super().on()

    def begin_counting(self) -> None:
        """What is paid for from here on counts."""
        self._is_counting = True
        super().begin_counting()

    def replaced(self) -> Iterable[tuple[Function, Handler]]:
        """What begins to read any loader, and what gives its next batch."""
        function = known_function("torch.utils.data.dataloader", "_BaseDataLoaderIter.__next__")
        if function is None:
            raise NotApplicable("this version of torch has no _BaseDataLoaderIter.__next__")
        yield function, self._next
        if (start := known_function("torch.utils.data.dataloader", "DataLoader.__iter__")) is not None:
            yield start, self._start

    def facts(self) -> Mapping[str, Any]:
        """Batches that were read all the same, and how long that took: in all counted steps, and one, from the iterator to its end."""
        each_ns = {} if not self._kept else {"kept_each_ns": round(self._kept_ns / self._kept)}
        return {**super().facts(), "batches_kept": self.effect, "kept_ns": self._kept_ns, **each_ns}

    def _start(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        begun_ns = now()
        iterator = call(*args, **kwargs)
        self._begun_ns[iterator] = begun_ns
        return iterator

    def _next(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        iterator = args[0]
        if iterator._num_yielded and self.training.is_validation(iterator) and self.leaves_out():
            self.count("validation")
            begun_ns = self._begun_ns.pop(iterator, None)
            if self._is_counting and begun_ns is not None:
                self._kept, self._kept_ns = self._kept + 1, self._kept_ns + now() - begun_ns
            raise StopIteration
        return call(*args, **kwargs)


def prepare(training: Training, spec: LeverSpec) -> Change:
    """By the framework's own switch where there is one. Raises NotApplicable where no loader validates."""
    if lightning_trainer() is not None or huggingface_trainer() is not None:
        return FrameworkValidationOff(training, spec.every)
    return LoopValidationOff(training, spec.every)


LEVER = Lever(name="validation-off", every=True, long_steps="its own", prepare=prepare)
