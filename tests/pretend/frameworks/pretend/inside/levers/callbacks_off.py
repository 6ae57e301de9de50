"""The trainer's callbacks are not called."""

from __future__ import annotations

from collections.abc import Iterable

from slowstep.levers._calls.handing import Function, Handler
from slowstep.levers._calls.left_out import CallsOff
from slowstep.levers._calls.targets import known_function
from slowstep.levers.callbacks_off import LEVER
from slowstep.record.experiment.lever import Implementation


class PretendCallbacksOff(CallsOff):
    """All of them, whatever they are called."""

    def replaced(self) -> Iterable[tuple[Function, Handler]]:
        """What calls each."""
        if (function := known_function("pretend", "Trainer.tell")) is not None:
            yield function, self.nothing("Trainer.tell")


IMPLEMENTATION = Implementation(lever=LEVER, prepare=PretendCallbacksOff.prepare)
