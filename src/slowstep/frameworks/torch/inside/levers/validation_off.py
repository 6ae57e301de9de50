"""Validations of a loop of the script's own end after their first batch: loaders that are read between two updates."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import Any, Final

from slowstep.levers._calls.handing import Call, Function, Handler
from slowstep.levers._calls.left_out import CallsOff
from slowstep.levers._calls.targets import known_function
from slowstep.levers.validation_off import LEVER
from slowstep.record.experiment.lever import Implementation, NotApplicable
from slowstep.record.experiment.training import Training
from slowstep.record.recorder import now

_USE_STUB: Final = "use stub=MODULE:FUNCTION on the function that validates"


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


IMPLEMENTATION = Implementation(lever=LEVER, prepare=LoopValidationOff.prepare, acts_on_loader=True)
