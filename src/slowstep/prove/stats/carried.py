"""What a lever noted in a later start of the script, as if one process had noted all of it: what counts up goes on. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from slowstep.prove.stats.effects import NO_WORD, ArmNote, LeverWord, last_words, word_in
from slowstep.record.experiment.lever import COUNTERS

# The number of a block, in what a lever notes of one.
_BLOCK: Final = "block"


@dataclass(frozen=True, kw_only=True, slots=True)
class Before:
    """What counts on in the notes of the next start: blocks, and by arm what its levers had changed and measured."""

    blocks: int
    words: Mapping[int, LeverWord]


def before(notes: Iterable[ArmNote], blocks: int) -> Before:
    """Of the notes of all starts until now, which had so many blocks together."""
    return Before(blocks=blocks, words=last_words(notes))


def carried_on(notes: Iterable[ArmNote], past: Before) -> Iterable[ArmNote]:
    """The notes of a later process, whose blocks, effects and counters count on from those before it."""
    for note in notes:
        more: dict[str, Any] = {_BLOCK: note[_BLOCK] + past.blocks} if isinstance(note.get(_BLOCK), int) else {}
        if (word := word_in(note)) is not None:
            earlier = past.words.get(note["arm"], NO_WORD)
            more["effect"] = (word.effect or 0) + (earlier.effect or 0)
            more["facts"] = added(earlier.facts, word.facts)
        yield {**note, **more}


def added(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of an arm in two processes, one after the other, as one."""
    counted = {name: _sum(earlier[name], now[name]) for name in COUNTERS & earlier.keys() & now.keys()}
    return {**earlier, **now, **counted}


def _sum(earlier: Any, later: Any) -> Any:
    """Of two numbers, or of each number in two tables; what is neither is as it was noted last."""
    if isinstance(earlier, dict) and isinstance(later, dict):
        return {**earlier, **later, **{name: _sum(earlier[name], later[name]) for name in earlier.keys() & later.keys()}}
    return earlier + later if isinstance(earlier, (int, float)) and isinstance(later, (int, float)) else later
