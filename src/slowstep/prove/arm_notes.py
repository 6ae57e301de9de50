"""What an experiment's levers noted of their arms, and what that says of the steps. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from slowstep.prove.lever_faults import SPOILT
from slowstep.prove.stats.readings import ExperimentSteps

ArmNote = Mapping[str, Any]

# What is noted of a lever that raised when it was to undo its change.
NOT_UNDONE: Final = "not undone"
# What a lever notes that gives out batches in place of the loader: the receipt of a batch, in ns, that it takes away with the making.
FLOOR: Final = "floor_ns"


def by_arm(notes: Iterable[ArmNote]) -> dict[int, list[ArmNote]]:
    """The notes of each arm, in their order."""
    found: dict[int, list[ArmNote]] = {}
    for note in notes:
        if isinstance(note.get("arm"), int):
            found.setdefault(note["arm"], []).append(note)
    return found


def last_facts(notes: Sequence[ArmNote]) -> dict[str, Any]:
    """What an arm's levers measured, by their last word."""
    found = next((note.get("facts") for note in reversed(notes) if note.get("state") == "effect"), None)
    return dict(found) if isinstance(found, dict) else {}


def last_effect(notes: Sequence[ArmNote]) -> int | None:
    """How much an arm's levers have changed, by their last word; None without one."""
    effects = [note for note in notes if note.get("state") == "effect"]
    return int(effects[-1].get("effect") or 0) if effects else None


def unspoilt(steps: ExperimentSteps, notes: Iterable[ArmNote]) -> ExperimentSteps:
    """The steps up to the block in which the training was spoilt for good: those after it are of another training."""
    blocks = [int(note["block"]) for note in notes if note.get("state") == SPOILT]
    return steps if not blocks else steps.where(steps.block <= min(blocks))


def floors(noted: Mapping[int, Sequence[ArmNote]], otherwise_ns: float, steps: ExperimentSteps) -> dict[int, float]:
    """Ns per step that are added to the arms whose input is mocked: receiving a batch that lies ready costs time in any case.

    A step that accumulates gradients receives several. Where none was seen to lie ready, it is what receipts took in the lead-in.
    """
    found = {}
    for arm, notes in noted.items():
        facts = last_facts(notes)
        if FLOOR in facts:
            batches = _batches(notes, int((steps.arm == arm).sum()))
            found[arm] = otherwise_ns if facts[FLOOR] is None else max(float(facts[FLOOR]), 0.0) * batches
    return found


def _batches(notes: Sequence[ArmNote], steps: int) -> int:
    """How many batches a step of an arm gets, by what its lever gave out in all of them: of the last ones it may not have told yet."""
    given = last_effect(notes)
    return max(round(given / steps), 1) if given and steps else 1
