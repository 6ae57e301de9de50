"""The change that `stub` and `swap` make: one function's calls, in the training's process and in others that work for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from slowstep.levers._calls.answers import ASKS, UPDATES
from slowstep.levers._calls.functions import redirected
from slowstep.levers._calls.handing import Call, Function
from slowstep.levers._calls.intercept import intercept, release_all
from slowstep.levers._calls.worker_page import ENDED, OFF, ON
from slowstep.record.experiment.lever import Change, LeverSpec, NotApplicable
from slowstep.record.experiment.training import Training
from slowstep.record.patch import Undo

# Steps in which a call is waited for. A function that is called more rarely is seen, and kept, when its arm is on.
PATIENCE: Final = 30


class OtherProcesses:
    """What of a lever is done in processes that work for the training; here there are none.

    `calls` and `replaced` are sums over all that there were, as of the last look; `refused` is why one cannot replace the function.
    """

    calls = replaced = 0
    refused: str | None = None

    def look(self) -> None:
        """See what they have done so far."""

    def switch(self, state: str) -> None:
        """Give them an order."""

    def is_known(self) -> bool:
        """Whether enough was seen of what they give the training as it is."""
        return True

    def is_received(self) -> bool:
        """Whether the training gets from them what they made since the last order."""
        return True


class FunctionChange(Change):
    """Watches a function until it was called once, then answers its calls while on. Raises NotApplicable, ValueError as `redirected`.

    `workers` makes the orders to other processes; `backward` is what the framework calls for gradients, where that is a function.
    """

    def __init__(
        self,
        training: Training,
        spec: LeverSpec,
        *,
        workers: Callable[[Training, LeverSpec], OtherProcesses] | None = None,
        backward: Function | None = None,
    ) -> None:
        self._training = training
        self._backwards = self._looks = 0
        self._here = redirected(spec, self._needed)
        self._workers = OtherProcesses() if workers is None else workers(training, spec)
        self._uncount = self._count_backwards(backward)
        if release_all not in training.recorder.forgetters:
            training.recorder.forgetters.append(release_all)
        self._is_watching = True
        self._here.switch(watching=True, on=False)

    def _needed(self) -> tuple[tuple[str, int], ...]:
        """What the training does; a function that does it is not to be left out. Asked on another thread, it does nothing meanwhile."""
        training = self._training
        if threading.get_ident() != training.thread:
            return ()
        return (UPDATES, training.updates), (UPDATES, self._backwards), (ASKS, training.requests)

    def _count_backwards(self, backward: Function | None) -> Undo:
        if backward is None:
            return lambda: None

        def count(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            self._backwards += 1
            return call(*args, **kwargs)

        return intercept(backward, count)

    def ready(self) -> bool:
        """Whether a call has been seen, or none for some time. Raises NotApplicable where the function cannot be replaced."""
        self._looks += 1
        queue_is_read = self._workers.is_known()
        if not self._is_watching:
            return True
        self._look()
        called = self._here.answer.is_ready or self._workers.calls > 0
        if queue_is_read and (called or self._looks >= PATIENCE):
            self._stop_watching()
        return not self._is_watching

    def on(self) -> None:
        """Answer its calls."""
        self._stop_watching()
        self._here.switch(watching=False, on=True)
        self._workers.switch(ON)

    def begin_counting(self) -> None:
        """Have the turns of `every` go on from the last counted step."""
        self._here.answer.begin_counting()

    def each_step(self) -> None:
        """Raises NotApplicable where the first calls came only now, and the function turns out to be one that cannot be replaced."""
        self.effect = self._replaced()
        if self._here.answer.refused is not None:
            raise NotApplicable(self._here.answer.refused)

    def off(self) -> None:
        """Let the calls reach the function again. Raises as `each_step`."""
        self._here.switch(watching=False, on=False)
        self._workers.switch(OFF)
        if self._here.answer.is_ready:
            self._uncount()
        self._look()

    def settled(self) -> bool:
        """Whether batches come from workers that have heard of it."""
        return self._workers.is_received()

    def remove(self) -> None:
        """Leave nothing: neither here nor in the workers."""
        self._uncount()
        self._here.switch(watching=False, on=False)
        self._workers.switch(ENDED)

    def facts(self) -> Mapping[str, Any]:
        """Calls seen in this process and in loader workers, whether the lever was on or not."""
        return {"calls": self._here.answer.calls, "calls_in_workers": self._workers.calls}

    def _stop_watching(self) -> None:
        if self._is_watching:
            self._is_watching = False
            self._here.switch(watching=False, on=False)
            self._workers.switch(OFF)
        if self._here.answer.is_ready:
            self._uncount()

    def _look(self) -> None:
        answer = self._here.answer
        answer.look()
        self._workers.look()
        self.effect = self._replaced()
        if (reason := answer.refused or self._workers.refused) is not None:
            raise NotApplicable(reason)

    def _replaced(self) -> int:
        return self._here.answer.replaced + self._workers.replaced
