"""The ranks of a job walk a plan in step: a lever is switched before the same update in all of them.

A lever in one rank alone shows nothing, for the others still wait for what it takes away, and one that changes what ranks share (batch
shapes, numbers of steps) would leave them waiting for each other for ever. Nobody waits here: at each boundary a rank publishes what it
could do next, and decides by what all have published at the boundary before. A rank that has made an update has shared gradients with all
others, which therefore have passed that boundary; where they have not, the ranks do not train in step, and no lever is switched.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.experiment.blocks import Blocks
from slowstep.record.framework import Framework
from slowstep.record.writing import format as contract

if TYPE_CHECKING:
    from slowstep.record.experiment.block_losses import BadLoss
    from slowstep.record.experiment.training import Training
    from slowstep.record.recorder import Recorder

# Others may be one boundary ahead, never two.
_KEPT: Final = 4
_WORDS: Final = 2
_FIRST: Final = contract.CONTROL_VOTES // 8
MOST_RANKS: Final = (contract.CONTROL_BYTES - contract.CONTROL_VOTES) // 8 // (_KEPT * _WORDS)
_UPDATE_BITS, _BLOCK_BITS, _PLAN_BITS = 32, 16, 8
_YES: Final = 1 << (_UPDATE_BITS + _BLOCK_BITS + _PLAN_BITS)
# Why ranks of a job cannot have a lever.
ELSEWHERE: Final = (
    f"the job has ranks on other machines, or more than {MOST_RANKS} on this one: they cannot be switched in step with each other"
)
ELSEWHERE_GONE: Final = "another rank of the job cannot have it, and all must have it or none"
ASYNCHRONOUS: Final = "in several ranks calls return before their work is done: blocks of such steps cannot be compared there"
OUT_OF_STEP: Final = "the ranks of the job do not make their updates in step with each other, so none can be switched with the others"


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


def find_local_rank(framework: Framework) -> LocalRank | None:
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


class InStep(Blocks):
    """The same in one of several ranks: what a rank would do by itself is what all do one boundary after all of them would.

    `refused`: why ranks of this job can have no lever, None where they can; `is_mine`: whether the steps of this one are compared.
    """

    def __init__(
        self,
        recorder: Recorder,
        training: Training,
        plan: dict[str, Any],
        ranks: Ranks,
        *,
        is_finite: bool,
        refused: str | None = None,
        is_mine: bool,
    ) -> None:
        super().__init__(recorder, training, plan, is_finite=is_finite)
        self._ranks, self._is_mine = ranks, is_mine
        self._votes: list[Vote] | None = None
        self._out = 0
        # What is to be done about a loss that was not finite, once the others know.
        self._found: list[BadLoss] = []
        if refused is not None:
            self._give_up(self._all_arms, refused)

    def _advance(self, at_ns: int) -> bool:
        update = self._training.updates
        if self._block >= 0 and not self._ranks.are_at(update - 1):
            self._give_up(self._all_arms, OUT_OF_STEP)
        self._votes = self._ranks.all_at(update - 1, self._block)
        self._do_what_is_known()
        for vote in self._votes or ():
            self._give_up(vote.gone, ELSEWHERE_GONE)
        is_ready = super()._may_begin(at_ns) if self._block < 0 else self._settling and super()._has_settled(at_ns)
        self._ranks.publish(update, self._block, Vote(is_ready, self._out | self._wanted_out | self._arms.gone(for_all=not self._is_mine)))
        return super()._advance(at_ns)

    def _may_begin(self, at_ns: int) -> bool:
        if self._agreed() or not self._has_levers_left:
            return True
        if at_ns - self._since_ns <= 2 * self._ready_ns:
            return False
        self._give_up(self._all_arms, OUT_OF_STEP)
        return True

    def _has_settled(self, at_ns: int) -> bool:
        # With no lever left nothing is switched, and nobody needs to agree.
        return self._agreed() or not self._has_levers_left

    def _goes_on_after(self, found: BadLoss) -> bool:
        # In this rank alone no lever is switched: the others hear of it first.
        if found.what == "own":
            return super()._goes_on_after(found)
        self._found.append(found)
        return True

    def _do_what_is_known(self) -> None:
        """What this rank has found of the loss, where all ranks have heard of it."""
        if self._votes is None or not self._found or self._wanted_out & ~self._votes[self._ranks.number].gone:
            return
        for found in self._found:
            if found.what == "blamed":
                self._arms.end_for_loss(found.arms, found.updates)
            else:
                self._arms.say_spoilt(found.arms, found.block)
        self._out |= self._wanted_out
        self._found.clear()

    @property
    def _wanted_out(self) -> int:
        """The arms in question, all of them where the training stays spoilt."""
        arms = sum(1 << arm for arm in {arm for found in self._found for arm in found.arms})
        return self._all_arms | arms if any(found.what == "spoilt" for found in self._found) else arms

    def _goes_on(self) -> bool:
        # By what all know: an arm that failed here alone is told to them first.
        return self._is_alive(self._blocks[self._block])

    def _is_alive(self, arm: int) -> bool:
        return not self._out >> arm & 1

    def _agreed(self) -> bool:
        return self._votes is not None and all(vote.yes for vote in self._votes)

    @property
    def _has_levers_left(self) -> bool:
        return bool(self._all_arms & ~self._out)

    @property
    def _all_arms(self) -> int:
        return sum(1 << arm for arm in set(self._blocks) if self._arms.has_levers(arm))

    def _give_up(self, arms: int, reason: str) -> None:
        for arm in range(arms.bit_length()):
            if arms >> arm & 1:
                self._arms.give_up(arm, reason)
        self._out |= arms
