"""The frameworks that update in this process: their optimizers are numbered together, and the one with most updates is what trains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slowstep.record.framework import Framework

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


class UpdatingFrameworks:
    """Shared by the `Updates` of all of them."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._number = 0
        self._most: dict[Framework, int] = {}
        recorder.forgetters.append(self._forget)

    def _forget(self) -> None:
        self._number = 0
        self._most.clear()

    def number(self) -> int:
        """The number of one more optimizer."""
        self._number += 1
        return self._number

    def is_most(self, framework: Framework, updates: int) -> bool:
        """Whether none has more updates than this one, which has so many by now: then it is what trains."""
        self._most[framework] = updates
        if updates < max(self._most.values()):
            return False
        self._recorder.framework = framework
        return True
