"""The ranks of a job walk a plan in step: a lever is switched before the same update in all of them.

A lever in one rank alone shows nothing, for the others still wait for what it takes away, and one that changes what ranks share (batch
shapes, numbers of steps) would leave them waiting for each other for ever. Nobody waits here: at each boundary a rank publishes what it
could do next, and decides by what all have published at the boundary before. A rank that has made an update has shared gradients with all
others, which therefore have passed that boundary; where they have not, the ranks do not train in step, and no lever is switched.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final

from slowstep.record.framework import Framework
from slowstep.record.writing import format as contract

# Others may be one boundary ahead, never two.
_KEPT: Final = 4
_WORDS: Final = 2
_FIRST: Final = contract.CONTROL_VOTES // 8
MOST_RANKS: Final = (contract.CONTROL_BYTES - contract.CONTROL_VOTES) // 8 // (_KEPT * _WORDS)
_UPDATE_BITS, _BLOCK_BITS, _PLAN_BITS = 32, 16, 8
_YES: Final = 1 << (_UPDATE_BITS + _BLOCK_BITS + _PLAN_BITS)


@dataclass(frozen=True, slots=True)
class LocalRank:
    """Which of the job's ranks on this machine a process is, and whether all ranks are here."""

    number: int
    ranks: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Vote:
    """What a rank has published: `yes`, it is ready, or has settled; `gone`, a bit for each arm that it has given up for all."""

    yes: bool
    gone: int


def find_place(framework: Framework) -> LocalRank | None:
    """Where this process stands among those that train together; None where it is no rank of several. Raises what the framework does."""
    told = framework.rank()
    if told is None or told[1] < 2:
        return None
    rank, size = told
    ranks, number = _number("LOCAL_WORLD_SIZE", size), _number("LOCAL_RANK", rank)
    # Those of a larger job have no room on the page: each is by itself.
    return LocalRank(number, ranks, is_whole=ranks == size) if ranks <= MOST_RANKS else LocalRank(0, 1, is_whole=False)


class Ranks:
    """The votes of one plan. `page` is the control page."""

    def __init__(self, page: memoryview, place: LocalRank, plan: int) -> None:
        self._words = page.cast("Q")
        self._place, self._plan = place, plan
        self.number = place.number
        self._others = range(place.ranks)

    def publish(self, update: int, block: int, vote: Vote) -> None:
        """Say at the boundary after so many updates, in a block (-1 none yet), what this rank could do."""
        at = self._at(self._place.number, update)
        # The other word says what this one is of.
        self._words[at + 1] = vote.gone
        self._words[at] = self._stamp(update, block) | (_YES if vote.yes else 0)

    def all_at(self, update: int, block: int) -> list[Vote] | None:
        """What all have published there; None where one has not, or in another block."""
        votes = [self._read(number, update) for number in self._others]
        stamp = self._stamp(update, block)
        return [Vote(bool(word & _YES), gone) for word, gone in votes] if all(word & ~_YES == stamp for word, _ in votes) else None

    def are_at(self, update: int) -> bool:
        """Whether all have passed that boundary, whatever they published."""
        mask = (1 << _UPDATE_BITS) - 1
        return all(self._read(number, update)[0] & mask == update & mask for number in self._others)

    def _read(self, number: int, update: int) -> tuple[int, int]:
        at = self._at(number, update)
        return self._words[at], self._words[at + 1]

    def _at(self, number: int, update: int) -> int:
        return _FIRST + (number * _KEPT + update % _KEPT) * _WORDS

    def _stamp(self, update: int, block: int) -> int:
        fields = ((update, _UPDATE_BITS), (block + 1, _BLOCK_BITS), (self._plan, _PLAN_BITS))
        stamp = shift = 0
        for value, bits in fields:
            stamp |= (value & ((1 << bits) - 1)) << shift
            shift += bits
        return stamp


def _number(name: str, otherwise: int) -> int:
    text: Any = os.environ.get(name, "")
    return int(text) if text.isdecimal() else otherwise
