"""What levers noted after each of their blocks: how much they have changed, how often, and what else they measured. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from slowstep.record.writing.format import LEVER_EFFECT

ArmNote = Mapping[str, Any]

# Of what comes seldom and at no fixed time, a lever that met it in so many blocks lets one expect it in as many of the blocks as it is.
# That these have met it in none, so that its removal seems to gain nothing, then has a chance of exp(-4) (Poisson): 1.8 %, which is under
# the 2.5 % that a false "refuted" may have. With fewer blocks it is over it.
FEWEST_CHANGED: Final = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class LeverWord:
    """What an arm's levers have changed so far, None where they did not say, and what else they measured."""

    effect: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


NO_WORD: Final = LeverWord()


def word_in(note: ArmNote) -> LeverWord | None:
    """What a note says of it; None where it is of something else."""
    if note.get("state") != LEVER_EFFECT or not isinstance(note.get("arm"), int):
        return None
    facts = note.get("facts")
    return LeverWord(effect=int(note.get("effect") or 0), facts=facts if isinstance(facts, dict) else {})


def last_words(notes: Iterable[ArmNote]) -> dict[int, LeverWord]:
    """By arm: the last of it. Arms that have noted nothing at all are left out."""
    found: dict[int, LeverWord] = {}
    for note in notes:
        if isinstance(arm := note.get("arm"), int):
            found[arm] = word_in(note) or found.get(arm, NO_WORD)
    return found


def blocks_changed(notes: Iterable[ArmNote]) -> dict[int, int]:
    """By arm: after how many of its blocks its levers had changed more than before. Arms that have noted nothing of it are left out."""
    found: dict[int, int] = {}
    last: dict[int, int] = {}
    for note in notes:
        if (word := word_in(note)) is not None:
            arm, effect = note["arm"], word.effect or 0
            found[arm] = found.get(arm, 0) + (effect > last.get(arm, 0))
            last[arm] = effect
    return found


def seldom_changed(notes: Iterable[ArmNote]) -> dict[int, int]:
    """The same of the arms that have changed something in too few blocks for a "refuted"."""
    return {arm: blocks for arm, blocks in blocks_changed(notes).items() if blocks < FEWEST_CHANGED}
