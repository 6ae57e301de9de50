"""Follows arrays from one call of a function that takes gradients to its next: it may be given parameters then that were updated by hand.

Operations that a script does one by one are told as calls of JAX' own functions. An argument that is new descends from what it was before
and from what the function gave. So does the state of a simulation whose forces are the gradient of an energy: parameters are told from it
by their shapes, of which a network has several.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Final

from slowstep.frameworks.jax.inside._leaves import arrays, may_be_trained
from slowstep.record.timing.tracebacks import PACKAGE

_OF_ARGUMENTS: Final = 1
_OF_RESULTS: Final = 2
_OF_BOTH: Final = _OF_ARGUMENTS | _OF_RESULTS
_FEWEST_SHAPES: Final = 2
# Operations, and arrays that the function takes and gives: an update of a large network has some thousands. Each takes some microseconds.
_MOST_OPERATIONS: Final = 20_000
_JAX: Final = ("-packages/jax/", "-packages/jaxlib/")

# The line of the script, or of a library beside JAX, that does an operation.
DoneAt = tuple[CodeType, int]


@dataclass(frozen=True, slots=True)
class LastOperation:
    """The last operation of an update: `index` calls of it, itself included, have been since the function gave its gradients."""

    operation: Any
    index: int
    at: DoneAt


class Descent:
    """What descends from a function's arguments and results; `is_over` where it takes too long."""

    def __init__(self, given: Any, result: Any) -> None:
        self._marks: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._made_by: dict[int, tuple[int, LastOperation]] = {}
        self._calls: Counter[int] = Counter()
        self._followed = 0
        # Shapes and types that its arguments and its results have in common.
        self._former: set[tuple[Any, str]] = set()
        self.called(given, result)

    @property
    def is_over(self) -> bool:
        """Whether enough was followed in vain."""
        return self._followed > _MOST_OPERATIONS

    def called(self, given: Any, result: Any) -> None:
        """The function was called again, with the same parameters: its gradients may be summed."""
        before = [array for array in arrays(given) if may_be_trained(array)]
        gave = arrays(result)
        gradients = {_form(array) for array in gave}
        self._followed += len(before) + len(gave)
        self._former = {_form(array) for array in before} & gradients
        self._calls.clear()
        self._mark(before, _OF_ARGUMENTS)
        self._mark(gave, _OF_RESULTS)

    def operated(self, operation: Any, given: Any, result: Any, frame: FrameType | None) -> None:
        """Something else was computed."""
        self._followed += 1
        self._calls[id(operation)] += 1
        found = 0
        for array in arrays(given):
            found |= self._mark_of(array)
        if not found:
            return
        made = arrays(result)
        self._mark(made, found)
        at = done_at(frame) if found == _OF_BOTH else None
        if at is not None:
            last = LastOperation(operation, self._calls[id(operation)], at)
            self._made_by.update((id(array), (self._followed, last)) for array in made)

    def update(self, given: Any) -> LastOperation | None:
        """What ended the update that made the parameters which the function is given now; None where they are no such."""
        made = [array for array in arrays(given) if self._mark_of(array) == _OF_BOTH and _form(array) in self._former]
        if len({_form(array) for array in made}) < _FEWEST_SHAPES:
            return None
        by = [self._made_by[id(array)] for array in made if id(array) in self._made_by]
        return max(by, key=lambda each: each[0])[1] if by else None

    def _mark_of(self, array: Any) -> int:
        known = self._marks.get(id(array))
        return known[1] if known is not None and known[0]() is array else 0

    def _mark(self, found: Iterable[Any], mark: int) -> None:
        self._marks.update((id(array), (weakref.ref(array), mark)) for array in found)


def _form(array: Any) -> tuple[Any, str]:
    return array.shape, str(array.dtype)


def done_at(frame: FrameType | None) -> DoneAt | None:
    """Where an operation is done, by the frames of its call."""
    while frame is not None and (frame.f_code.co_filename.startswith(PACKAGE) or _is_jax(frame)):
        frame = frame.f_back
    return None if frame is None else (frame.f_code, frame.f_lasti)


def asked_in(frame: FrameType | None) -> FrameType | None:
    """The frame that asked for it: not the function that `jax.tree.map` was handed, but where that is called."""
    found = frame
    while frame is not None:
        if _is_jax(frame):
            found = frame.f_back
        frame = frame.f_back
    return found


def _is_jax(frame: FrameType) -> bool:
    return any(own in frame.f_code.co_filename for own in _JAX)
