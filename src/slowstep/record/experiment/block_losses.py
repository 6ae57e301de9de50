"""Whether losses stay finite while levers are switched, and whose doing it is where they do not.

Looked at are the first step of a block, which is not counted, and the last one. A loss that was finite in the first and is not in the last
was spoilt in between; one that is not finite in the first was spoilt by what was on before, or cannot be computed under what is on now.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from slowstep.record.device.last_loss import IsFinite, LastLoss

# `blamed`: the levers in question are to be ended. `spoilt`: so they were, and the training has not come back. `own`: no lever was on.
What = Literal["blamed", "spoilt", "own"]
# The first two arms of a plan have no levers.
_CONTROL: Final = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class BadLoss:
    """Something to be done about a loss that was not finite: in which block, after so many updates, with these arms in question."""

    what: What
    arms: tuple[int, ...]
    block: int
    updates: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Step:
    """The step whose loss is wanted, and the arms that may have spoilt it."""

    block: int
    arms: frozenset[int]


class BlockLosses:
    """Follows one plan. `is_finite` is what is known of the training before it; where its loss is no number there is nothing to watch."""

    def __init__(self, loss: LastLoss, *, is_finite: bool) -> None:
        self._loss, self._is_on = loss, is_finite
        self._step: _Step | None = None
        self._asked: tuple[IsFinite, _Step, int] | None = None
        self._blamed: BadLoss | None = None

    def want(self, block: int, *arms: int) -> None:
        """The step that begins now is to be looked at; these arms are, or were, on."""
        if self._is_on and self._asked is None:
            self._step = _Step(block=block, arms=frozenset(arm for arm in arms if arm > _CONTROL))
            self._loss.want()

    def step_ended(self, updates: int) -> BadLoss | None:
        """A step has ended, after so many updates in all. What was found by now, of it or of one before it."""
        step, self._step = self._step, None
        if step is not None and (answer := self._loss.take()) is not None:
            self._asked = answer, step, updates
        if self._asked is None or (finite := self._asked[0]()) is None:
            return None
        (_, step, updates), self._asked = self._asked, None
        return self._heard(step, updates, finite)

    def _heard(self, step: _Step, updates: int, finite: bool) -> BadLoss | None:
        blamed = self._blamed
        if blamed is not None:
            if step.block == blamed.block:
                return None
            # Of a step after the lever was ended: a loss that is finite again was the lever's for as long as it was on.
            self._blamed = None
            return None if finite else self._last(BadLoss(what="spoilt", arms=blamed.arms, block=blamed.block, updates=updates))
        if finite:
            return None
        found = BadLoss(what="blamed" if step.arms else "own", arms=tuple(sorted(step.arms)), block=step.block, updates=updates)
        if not step.arms:
            return self._last(found)
        self._blamed = found
        return found

    def _last(self, found: BadLoss) -> BadLoss:
        self._is_on = False
        return found
