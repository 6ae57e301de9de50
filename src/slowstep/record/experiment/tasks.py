"""A plan that is a task: one piece of work done on the training thread, in place of steps, after which nothing trains any more."""

from __future__ import annotations

import importlib
import time
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.recorder import now
from slowstep.record.writing import format as contract

if TYPE_CHECKING:
    from slowstep.record.experiment.training import Training
    from slowstep.record.recorder import Recorder

# Whoever posted the task ends this process once it is done, or posts the next plan. Without either the training goes on after so long.
HELD_NS: Final = 60_000_000_000
_LOOK_S: Final = 0.02


class Task:
    """`run(training, arguments)` of a module of `slowstep.levers._tasks`. It raises nothing: what goes wrong is a note."""

    def __init__(self, recorder: Recorder, training: Training, name: str, arguments: dict[str, Any]) -> None:
        self._recorder, self._training, self._name, self._arguments = recorder, training, name, arguments

    def boundary(self, at_ns: int, samples: int, delay_ns: int) -> bool:
        """Do the task, say how it ended, and hold the training thread until another plan comes. Always the last."""
        try:
            if not self._name.isidentifier():
                raise ValueError(f"{self._name!r} is no task's name")
            importlib.import_module(f"slowstep.levers._tasks.{self._name}").run(self._training, self._arguments)
            self._note("done")
        except Exception as error:  # whatever a task raises is noted; the training is a sandboxed one, and held
            self._note("failed", reason=f"{type(error).__name__}: {error}")
        self._hold()
        return False

    def close(self) -> None:
        """Nothing is left to undo: a task undoes what it did before it ends."""

    def _note(self, state: str, **more: Any) -> None:
        self._recorder.note({"kind": "task", "task": self._name, "part": "end", "state": state, **more})

    def _hold(self) -> None:
        page, until_ns = self._recorder.page.bytes, now() + HELD_NS
        page[contract.CONTROL_PLAN] = contract.PLAN_DONE
        while page[contract.CONTROL_PLAN] == contract.PLAN_DONE and now() < until_ns:
            time.sleep(_LOOK_S)
