"""Calls of its trainer, its callbacks, and what it counts; levers are switched after its calls."""

from __future__ import annotations

import functools
import sys
from typing import Any

from slowstep.frameworks.pretend.inside._framework import FRAMEWORK

from slowstep.record.experiment.switch import Switch
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, all_of, find, replace
from slowstep.record.recorder import Recorder, now
from slowstep.record.steps.counted import CountedInput
from slowstep.record.steps.named_spans import Label, NamedSpans, place_of
from slowstep.record.steps.updates import Updates
from slowstep.stages import CALLBACK


def install(recorder: Recorder) -> Undo:
    """Replace both calls, and read the counters among the chores."""
    trainer = find(sys.modules["pretend"], "Trainer")
    calls = _Calls(recorder)
    recorder.chores.append(calls.count)
    return all_of(
        [
            lambda: recorder.chores.remove(calls.count),
            replace(trainer, "dispatch", calls.dispatched(trainer.dispatch)),
            replace(trainer, "tell", calls.told(trainer.tell)),
        ]
    )


class _Calls:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder, self._updates, self._spans = recorder, Updates(recorder, FRAMEWORK), NamedSpans(recorder)
        self._switch = recorder.shared(Switch) if recorder.experiment or recorder.levers else None
        self._counted: CountedInput | None = None
        self._trainer: Any = None

    def dispatched(self, original: Any) -> Any:
        @functools.wraps(original)
        def dispatch(trainer: Any, updates: int) -> None:
            began_ns = now()
            original(trainer, updates)
            self._updates.called(trainer, began_ns, now(), updates)
            if self._switch is not None:
                self._switch.updated(trainer)
            if self._counted is None and trainer.counts:
                self._trainer, self._counted = trainer, CountedInput(self._recorder, dataset=type(trainer._batches).__qualname__)

        return dispatch

    def told(self, original: Any) -> Any:
        @functools.wraps(original)
        def tell(trainer: Any, callback: Any, updates: int) -> None:
            began_ns = now()
            original(trainer, callback, updates)
            self._spans.write(Label(CALLBACK + callback.__qualname__, "output", *place_of(callback)), began_ns)

        return tell

    def count(self) -> None:
        if self._counted is not None:
            counters = self._trainer.counters
            self._counted.read(counters.batches, counters.waited_ns, counters.busy_ns)


HOOK = Hook(name="pretend_trainer", module="pretend", install=install)
