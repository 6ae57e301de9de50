"""Several starts of a script as one experiment: the rounds of each behind those of the one before. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from slowstep.prove.stats.effects import NO_WORD, ArmNote, LeverWord, last_words, word_in
from slowstep.prove.stats.plan import Plan
from slowstep.prove.stats.readings import ExperimentSteps, after_each_other
from slowstep.record.experiment.lever import COUNTERS

# The number of a block, in what a lever notes of one.
_BLOCK: Final = "block"


@dataclass(frozen=True, kw_only=True, slots=True)
class StartedPlan:
    """The plan that one start walked, or several as one, the steps of it, and what levers noted meanwhile."""

    plan: Plan
    steps: ExperimentSteps
    notes: tuple[Mapping[str, Any], ...] = ()

    @property
    def rounds(self) -> int:
        """Rounds that were begun. What the last one lacks is in no estimate."""
        return 0 if not len(self.steps.block) else int(self.steps.block.max()) // len(self.plan.arms) + 1

    def followed_by(self, plan: Plan) -> Plan:
        """The plan of all, where the next start walks this one: of the same arms, in blocks of as many steps."""
        blocks = self.plan.blocks[: self._begun]
        begins = (*self.plan.begins, self.rounds) if self.rounds else ()
        return replace(self.plan, blocks=(*blocks, *plan.blocks), begins=begins, process=None)

    def with_next(self, start: StartedPlan) -> StartedPlan:
        """Both as one."""
        return StartedPlan(
            plan=self.followed_by(start.plan), steps=self.with_next_steps(start.steps), notes=self.with_next_notes(start.notes)
        )

    def with_next_steps(self, steps: ExperimentSteps) -> ExperimentSteps:
        """The steps of both, where those are of the next start."""
        return after_each_other(self.steps, replace(steps, block=steps.block + self._begun))

    def with_next_notes(self, notes: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
        """The notes of both."""
        return (*self.notes, *_carried_on(notes, _counts_until(self.notes, self._begun)))

    @property
    def _begun(self) -> int:
        """Blocks of those rounds."""
        return self.rounds * len(self.plan.arms)


def as_one(starts: Sequence[StartedPlan]) -> StartedPlan:
    """All of them, of which there is one at least."""
    first, *later = starts
    for start in later:
        first = first.with_next(start)
    return first


@dataclass(frozen=True, kw_only=True, slots=True)
class _Before:
    """What counts on in the notes of the next start: blocks, and by arm what its levers had changed and measured."""

    blocks: int
    words: Mapping[int, LeverWord]


def _counts_until(notes: Iterable[ArmNote], blocks: int) -> _Before:
    """What later notes count on from: those of all starts until now, which had so many blocks together."""
    return _Before(blocks=blocks, words=last_words(notes))


def _carried_on(notes: Iterable[ArmNote], past: _Before) -> Iterable[ArmNote]:
    """The notes of a later process, whose blocks, effects and counters count on from those before it."""
    for note in notes:
        more: dict[str, Any] = {_BLOCK: note[_BLOCK] + past.blocks} if isinstance(note.get(_BLOCK), int) else {}
        if (word := word_in(note)) is not None:
            earlier = past.words.get(note["arm"], NO_WORD)
            more["effect"] = (word.effect or 0) + (earlier.effect or 0)
            more["facts"] = _added(earlier.facts, word.facts)
        yield {**note, **more}


def _added(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of an arm in two processes, one after the other, as one."""
    counted = {name: _sum(earlier[name], now[name]) for name in COUNTERS & earlier.keys() & now.keys()}
    return {**earlier, **now, **counted}


def _sum(earlier: Any, later: Any) -> Any:
    """Of two numbers, or of each number in two tables; what is neither is as it was noted last."""
    if isinstance(earlier, dict) and isinstance(later, dict):
        return {**earlier, **later, **{name: _sum(earlier[name], later[name]) for name in earlier.keys() & later.keys()}}
    return earlier + later if isinstance(earlier, (int, float)) and isinstance(later, (int, float)) else later
