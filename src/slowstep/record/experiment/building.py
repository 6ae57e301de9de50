"""Levers that act where the script builds its loader: in a sandboxed run, since nothing of it can be undone.

Where a loader is built is known by the lines of all calls that led there: a run of the same script builds the loader of its validation
elsewhere, and a loader for each epoch at the same place.
"""

from __future__ import annotations

import os
import sys
import weakref
import zlib
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.experiment.arms import became
from slowstep.record.experiment.implementations import can_build, implementations
from slowstep.record.experiment.lever import LeverSpec
from slowstep.record.writing import format as fmt

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

    from slowstep.record.experiment.training import Training
    from slowstep.record.recorder import Recorder

# The process may be killed at any time: what a lever did is said after so many steps, and every tenfold of them.
FIRST_SAID: Final = 10
ELSEWHERE: Final = "the script has built the loader that feeds the training at another place this time"


def place_of_call(above: int) -> int:
    """A check sum of the lines that are being executed so many frames up, and above."""
    frame: FrameType | None = sys._getframe(above)
    found = 0
    while frame is not None:
        code = frame.f_code
        # Each run may have a copy of the script in a folder of its own.
        found = zlib.crc32(f"{os.path.basename(code.co_filename)}:{code.co_name}:{frame.f_lineno};".encode(), found)
        frame = frame.f_back
    return found


class AtBuilding:
    """One lever in one run; `arm` and the notes are those of a lever that is on all the time."""

    def __init__(self, recorder: Recorder, training: Training, spec: LeverSpec) -> None:
        self._recorder, self._training, self._spec = recorder, training, spec
        self._built: dict[int, tuple[weakref.ref[Any], Mapping[str, Any]]] = {}
        self._refused: dict[str, Any] | None = None
        self._is_on: bool | None = None
        self._steps, self._say_at = 0, FIRST_SAID

    def change(self, loader: Any, framework: str) -> None:
        """The script has built it, of that framework; now it is another."""
        implementation = implementations(self._spec.name).get(framework)
        if implementation is None or implementation.build is None:
            return
        try:
            self._built[id(loader)] = weakref.ref(loader), implementation.build(loader, self._spec)
        except Exception as error:  # a lever's own fault: it is named, and the loader stays the script's own
            self._refused = became(error)

    def boundary(self, at_ns: int) -> None:
        """A step has ended: after the first it is known which loader feeds the training."""
        if self._is_on is None:
            self._is_on = self._found() is not None
            self._note(**({"state": fmt.LEVER_ON, "updates": 0} if self._is_on else self._why_not()))
        if not self._is_on:
            return
        self._steps += 1
        if self._steps == self._say_at:
            self._say_at *= 10
            self._note(state=fmt.LEVER_EFFECT, effect=self._steps, facts=dict(self._found() or {}))

    def close(self) -> None:
        """Nothing can be undone: the loader is the script's own."""

    def _found(self) -> Mapping[str, Any] | None:
        loader = self._training.loader
        known, facts = self._built.get(id(loader), (None, None))
        return facts if known is not None and known() is loader else None

    def _why_not(self) -> dict[str, Any]:
        return self._refused or {"state": fmt.LEVER_NOT_APPLICABLE, "reason": ELSEWHERE}

    def _note(self, **more: Any) -> None:
        self._recorder.note({"kind": "lever", "arm": 1, "name": str(self._spec), **more})


def builders(recorder: Recorder, training: Training) -> list[AtBuilding]:
    """The levers of this run that act where the loader is built; none in runs that were not asked for it."""
    if recorder.loader_place is None:
        return []
    asked = [LeverSpec(**fields) for fields in recorder.levers]
    return [AtBuilding(recorder, training, spec) for spec in asked if can_build(spec.name)]
