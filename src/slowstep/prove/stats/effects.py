"""How often a lever has changed something, by what it noted after each of its blocks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

# Of what comes seldom and at no fixed time, a lever that met it in so many blocks lets one expect it in as many of the blocks as it is.
# That these have met it in none, so that its removal seems to gain nothing, then has a chance of exp(-4) (Poisson): 1.8 %, which is under
# the 2.5 % that a false "refuted" may have. With fewer blocks it is over it.
FEWEST_CHANGED: Final = 4
# The state that is noted of a lever with how much it has changed so far.
EFFECT: Final = "effect"


def blocks_changed(notes: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """By arm: after how many of its blocks its levers had changed more than before. Arms that have noted nothing of it are left out."""
    found: dict[int, int] = {}
    last: dict[int, int] = {}
    for note in notes:
        arm = note.get("arm")
        if note.get("state") == EFFECT and isinstance(arm, int):
            effect = int(note.get("effect") or 0)
            found[arm] = found.get(arm, 0) + (effect > last.get(arm, 0))
            last[arm] = effect
    return found


def last_effects(notes: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """By arm: how much its levers have changed, by their last word."""
    return {note["arm"]: int(note.get("effect") or 0) for note in notes if note.get("state") == EFFECT and isinstance(note.get("arm"), int)}


def seldom_changed(notes: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """The same of the arms that have changed something in too few blocks for a "refuted"."""
    return {arm: blocks for arm, blocks in blocks_changed(notes).items() if blocks < FEWEST_CHANGED}
