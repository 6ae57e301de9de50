"""What an experiment's levers noted of their arms, and what that says of the steps. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from slowstep.prove.stats.effects import ArmNote, LeverWord
from slowstep.prove.stats.readings import ExperimentSteps
from slowstep.record.writing.format import LEVER_SPOILT

# What a lever notes that gives out batches in place of the loader: the receipt of a batch, in ns, that it takes away with the making.
FLOOR: Final = "floor_ns"


def unspoilt(steps: ExperimentSteps, notes: Iterable[ArmNote]) -> ExperimentSteps:
    """The steps up to the block in which the training was spoilt for good: those after it are of another training."""
    blocks = [int(note["block"]) for note in notes if note.get("state") == LEVER_SPOILT]
    return steps if not blocks else steps.where(steps.block <= min(blocks))


def floors(words: Mapping[int, LeverWord], otherwise_ns: float, steps: ExperimentSteps) -> dict[int, float]:
    """Ns per step that are added to the arms whose input is mocked: receiving a batch that lies ready costs time in any case.

    A step that accumulates gradients receives several. Where none was seen to lie ready, it is what receipts took in the lead-in.
    """
    found = {}
    for arm, word in words.items():
        if FLOOR in word.facts:
            floor_ns, batches = word.facts[FLOOR], _batches(word.effect, int((steps.arm == arm).sum()))
            found[arm] = otherwise_ns if floor_ns is None else max(float(floor_ns), 0.0) * batches
    return found


def _batches(given: int | None, steps: int) -> int:
    """How many batches a step of an arm gets, by what its lever gave out in all of them: of the last ones it may not have told yet."""
    return max(round(given / steps), 1) if given and steps else 1
