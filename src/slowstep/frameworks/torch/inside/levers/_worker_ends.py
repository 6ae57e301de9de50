"""The two ends of a lever that reaches loader workers: what the training orders, and the worker that obeys."""

from __future__ import annotations

import weakref

from slowstep.frameworks.torch.inside.levers._input.gathered import GatheredBatches
from slowstep.levers._calls.answers import REASONS
from slowstep.levers._calls.function_change import OtherProcesses
from slowstep.levers._calls.functions import Redirected, redirected
from slowstep.levers._calls.turns import DrawnTurns
from slowstep.levers._calls.worker_page import ENDED, OFF, ON, WATCH, Done, Orders, OrdersRead
from slowstep.record.experiment.lever import LeverSpec, NotApplicable
from slowstep.record.experiment.training import Training

_orders: weakref.WeakKeyDictionary[Training, Orders] = weakref.WeakKeyDictionary()


class InWorkers(OtherProcesses):
    """A lever's orders to the workers of the training's loader. Raises OSError where the recording's folder takes no more files."""

    def __init__(self, training: Training, spec: LeverSpec) -> None:
        if training not in _orders:
            _orders[training] = Orders(training.recorder.folder)
        self._orders = _orders[training]
        self._number = self._orders.add(spec)
        self._gathered = GatheredBatches(training)

    def look(self) -> None:
        """See what the workers have done so far."""
        done = self._orders.done(self._number)
        self.calls, self.replaced = sum(d[0] for d in done), sum(d[1] for d in done)
        reasons = [d[2] for d in done if d[2]]
        if reasons and self.refused is None:
            self.refused = REASONS[reasons[0] - 1]

    def switch(self, state: str) -> None:
        """Give an order, which holds from each worker's next batch on."""
        self._orders.change(self._number, state)
        if self.calls:
            if state == OFF:
                self._gathered.discard()
            self._gathered.switched()

    def is_known(self) -> bool:
        """Whether it is known how many batches usually lie ready."""
        return self._gathered.is_known()

    def is_received(self) -> bool:
        """Whether batches come from workers that have heard of it."""
        return self._gathered.is_received()


class Follower:
    """Obeys, in a worker."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._orders = OrdersRead(folder)
        self._done: Done | None = None
        self._obeyed: dict[int, Redirected] = {}
        self._told: dict[int, tuple[int, int, int]] = {}

    def look(self) -> None:
        """Called before each batch: tell what was done in the last one, and see whether there are new orders.

        Whatever else goes wrong than the folder's loss is raised to whoever calls, and leaves the worker's functions as they were.
        """
        try:
            self._tell()
            for number, order in enumerate(self._orders.changed() or ()):
                self._obey(number, LeverSpec(**order["spec"]), order["state"])
        except (OSError, ValueError):
            # The folder is gone, or full: so is the recording.
            return
        except Exception:
            for function in self._obeyed.values():
                function.switch(watching=False, on=False)
            raise

    def _obey(self, number: int, spec: LeverSpec, state: str) -> None:
        try:
            if number not in self._obeyed and state != ENDED:
                self._obeyed[number] = redirected(spec, turns=DrawnTurns)
        except (NotApplicable, ValueError):
            # A worker that has not imported the function does not call it either.
            return
        if number in self._obeyed:
            self._obeyed[number].switch(watching=state == WATCH, on=state == ON)

    def _tell(self) -> None:
        for number, function in self._obeyed.items():
            answer = function.answer
            answer.look()
            told = answer.calls, answer.replaced, 0 if answer.refused is None else REASONS.index(answer.refused) + 1
            if self._told.get(number) != told:
                self._done = self._done or Done(self._folder)
                self._done.write(number, *told)
                self._told[number] = told
