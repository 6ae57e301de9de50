"""A plan that is a task: one piece of work done on the training thread, in place of steps, after which nothing trains any more."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.framework import is_imported, known_frameworks
from slowstep.record.recorder import now
from slowstep.record.writing import format as contract
from slowstep.registry import find_by_folder

if TYPE_CHECKING:
    from slowstep.record.experiment.training import Training
    from slowstep.record.recorder import Recorder

# Whoever posted the task ends this process once it is done, or posts the next plan. Without either the training goes on after so long.
HELD_NS: Final = 60_000_000_000
_LOOK_S: Final = 0.02
# How a task ends that no framework here can do.
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskImplementation:
    """How a framework does a task: with the training, and the arguments of the plan."""

    name: str
    run: Callable[[Training, dict[str, Any]], None]


class Task:
    """A task of a plan, found in `frameworks/NAME/inside/tasks`. It raises nothing: what goes wrong is a note."""

    def __init__(self, recorder: Recorder, training: Training, name: str, arguments: dict[str, Any]) -> None:
        self._recorder, self._training, self._name, self._arguments = recorder, training, name, arguments

    def boundary(self, at_ns: int, samples: int, delay_ns: int) -> bool:
        """Do the task, say how it ended, and hold the training thread until another plan comes. Always the last."""
        try:
            if (task := self._find()) is None:
                self._note(UNKNOWN)
            else:
                task.run(self._training, self._arguments)
                self._note("done")
        except Exception as error:  # whatever a task raises is noted; the training is a sandboxed one, and held
            self._note("failed", reason=f"{type(error).__name__}: {error}")
        self._hold()
        return False

    def close(self) -> None:
        """Nothing is left to undo: a task undoes what it did before it ends."""

    def _find(self) -> TaskImplementation | None:
        """That of the framework whose loader feeds the training, else of the one that trains, else of another one that is there: its
        input may be one that is seen in another way. None of none.
        """
        known = find_by_folder("slowstep.frameworks", "inside.tasks", self._name, "TASK", TaskImplementation)
        first = (self._training.loader_framework, self._recorder.framework)
        for framework in sorted(known_frameworks(), key=lambda each: first.index(each) if each in first else len(first)):
            if framework.name in known and is_imported(framework):
                return known[framework.name]
        return None

    def _note(self, state: str, **more: Any) -> None:
        self._recorder.note({"kind": "task", "task": self._name, "part": "end", "state": state, **more})

    def _hold(self) -> None:
        page, until_ns = self._recorder.page.bytes, now() + HELD_NS
        page[contract.CONTROL_PLAN] = contract.PLAN_DONE
        while page[contract.CONTROL_PLAN] == contract.PLAN_DONE and now() < until_ns:
            time.sleep(_LOOK_S)
