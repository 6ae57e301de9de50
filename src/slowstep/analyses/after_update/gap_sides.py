"""On which side of a gap a stack stands: before the next forward, where a loop that is not fed makes its input, or after the last update.

Lines tell: of one loop, those above the update are before it and those below come after. Between the updates of two optimizers in one
pass through the loop they do not, and what is before a backward is input only where the forward is known to follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from slowstep.analyses.python.functions import Path
from slowstep.analyses.python.loop import NOWHERE, CallOrder, are_lines_comparable, is_before, meeting, met_frame, order_of
from slowstep.analyses.steps.forwards import Forwards
from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.intervals import Ints

_NEVER = np.iinfo(np.int64).max


class GapSide(Enum):
    """Of a stack in a gap."""

    INPUT = "before the forward"
    UNSEEN = "before a backward whose forward was not seen"
    AFTER = "after the update"
    UNKNOWN = "lines do not show it"


@dataclass(frozen=True, slots=True)
class GapBounds:
    """The optimizers whose updates a gap lies between, whether the forward of the next is known to follow, and whether a pass over a
    loader begins before that update.
    """

    done: int
    following: int
    sees_forward: bool
    begins_pass: bool = False


def between_updates(trainer: Trainer, forwards: Forwards, start_ns: Ints) -> list[GapBounds]:
    """What each of some gaps lies between."""
    updates = trainer.outer_updates
    number = np.append(updates["optimizer"].to_numpy(), trainer.optimizer)
    first = np.searchsorted(updates["start_ns"].to_numpy(), start_ns)
    last = np.searchsorted(updates["end_ns"].to_numpy(), start_ns, side="right") - 1
    begins: Ints = np.append(updates["start_ns"].to_numpy(), _NEVER)[first]
    forward = np.append(forwards.bodies_ns, _NEVER)[np.searchsorted(forwards.bodies_ns, start_ns)]
    sees: NDArray[np.bool_] = forward < begins
    passes = trainer.starts["start_ns"].to_numpy()
    begins_pass: NDArray[np.bool_] = np.append(passes, _NEVER)[np.searchsorted(passes, start_ns)] < begins
    columns = (number[last], number[first], sees, begins_pass)
    return [GapBounds(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def side_of(path: Path, trainer: Trainer, between: GapBounds) -> GapSide:
    """The side of a stack. What is done for a loop that is fed comes after the update."""
    if trainer.is_fed or (trainer.by_hand and not trainer.way_to_forward):
        return GapSide.AFTER
    tells = trainer.takes_turns and trainer.way_to_forward
    side = _beside_forward(path, trainer) if tells else _beside_updates(path, trainer, between)
    # Where whole updates are single calls, nothing of a step is outside of these.
    is_unseen = side is GapSide.INPUT and not between.sees_forward and not trainer.by_hand and trainer.has_optimizers
    return GapSide.UNSEEN if is_unseen else side


def nearest_optimizer(path: Path, trainer: Trainer, between: GapBounds) -> int:
    """The optimizer of the two, the way to whose update has more in common with a stack; the anchor where they take turns."""
    if trainer.is_fed or trainer.takes_turns:
        return trainer.optimizer
    done, following = (meeting(path, trainer.way_to(optimizer)) for optimizer in (between.done, between.following))
    return between.done if done >= following else between.following


def _beside_forward(path: Path, trainer: Trainer) -> GapSide:
    if not are_lines_comparable(path, trainer.way_to_forward, trainer.way_to_update, trainer.other_cells):
        return GapSide.UNKNOWN
    return GapSide.INPUT if is_before(path, trainer.way_to_forward) else GapSide.AFTER


def _beside_updates(path: Path, trainer: Trainer, between: GapBounds) -> GapSide:
    done, following = trainer.way_to(between.done), trainer.way_to(between.following)
    if not all(are_lines_comparable(path, way, way, trainer.other_cells) for way in (done, following)):
        return GapSide.UNKNOWN
    below, above = meeting(path, done), meeting(path, following)
    depth = max(below, above)
    if depth == NOWHERE:
        return GapSide.UNKNOWN
    is_after = below == depth and order_of(path[depth], met_frame(done, depth)) is CallOrder.AFTER
    is_input = above == depth and order_of(path[depth], met_frame(following, depth)) is CallOrder.BEFORE
    # Both, where the one follows the other without a turn of the loop between.
    return GapSide.UNKNOWN if is_after == is_input else GapSide.AFTER if is_after else GapSide.INPUT
