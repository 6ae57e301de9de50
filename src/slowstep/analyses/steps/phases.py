"""Trainings that follow one another on a thread, each with an optimizer of its own: folds, clients, a pretraining and what comes after it.

Optimizers of which each makes its first call after the last one of the one before. From different lines they are phases, each with a loop
of its own: one is looked at. Where the same line calls them they are one training's, whose optimizer is only made anew, for as long as
it is the same model's, by the parameters that it holds. Models in turn are trainings of their own, but for those that take turns
(populations), and for many short ones (clients): these are one training's too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from typing import Any

import polars as pl

from slowstep.timeline.timeline import Frame

# A verdict needs so many steps, and some before them to warm up (docs/definitions.md): of a shorter phase nothing could be said.
ENOUGH_CALLS = 40
# The longest of the trainings that one line makes in turn holds as much of their time at least, else it would say little of them.
LONGEST_SHARE = 0.05
# Trainings whose steps take as long, within this factor, are alike.
ALIKE = 1.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Phase:
    """Optimizers that are called in turns, or one after the other by the same line, and from when to when."""

    optimizers: tuple[int, ...]  # in the order of their first calls
    anchor: int  # of those in turns the one with most calls; else, and of those with as many, the first
    anchor_start_ns: int
    calls: int  # the anchor's; all where they are called one after the other
    updates: int  # of all of them
    start_ns: int
    end_ns: int
    models: int = 1  # that are trained in it, as far as that is known

    @property
    def length_ns(self) -> int:
        """From its first update to its last."""
        return self.end_ns - self.start_ns

    @property
    def is_made_anew(self) -> bool:
        """Whether its optimizers follow one another as one training's."""
        return len(self.optimizers) > 1 and self.calls == self.updates


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingInTurn:
    """One of several trainings in turn."""

    steps: int
    length_ns: int
    samples: int | None  # from its first update to its last; None where that is not known
    is_judged: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Elsewhere:
    """The phases of a thread that are not looked at: their updates, the anchors of each, and their share of the time of all phases."""

    updates: int
    anchors: tuple[int, ...]
    share: float
    unlike_share: float  # of those that another line makes, or whose steps take another time than those that are looked at
    before: int  # how many of them come before the one that is looked at
    trainings: tuple[TrainingInTurn, ...] = ()  # all, that which is looked at too, in their order


def find_phases(
    updates: pl.DataFrame, ways: Mapping[int, tuple[Frame, ...]], models: Mapping[int, int] | None = None, *, apart: bool = True
) -> list[Phase]:
    """The phases of one thread's updates, in their order; `ways` are the frames that lead to each optimizer's call, where known, and
    `models` number what each trains.

    All are one where they are not to be told `apart`.
    """
    calls = updates.group_by("optimizer").agg(pl.len().alias("calls"), pl.col("start_ns").min(), pl.col("end_ns").max())
    together: list[Phase] = []
    for number, count, start_ns, end_ns in calls.sort("start_ns").select("optimizer", "calls", "start_ns", "end_ns").iter_rows():
        own = Phase(
            optimizers=(number,),
            anchor=number,
            anchor_start_ns=start_ns,
            calls=count,
            updates=count,
            start_ns=start_ns,
            end_ns=end_ns,
        )
        if together and not (apart and own.start_ns >= together[-1].end_ns):
            anchor = together[-1] if together[-1].calls >= count else own
            together[-1] = _sum_of(together[-1], own, anchor, calls=anchor.calls)
        else:
            together.append(own)
    return [phase for row in _rows(together, ways) for phase in _of_row(row, models or {})]


def find_models(optimizers: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """A number for what each optimizer trains, by the notes of them: the same for those that had one of their parameters in common.
    Of an optimizer that is not in it that is not known.
    """
    models: dict[int, int] = {}
    for note in optimizers:
        number, shares = note.get("id"), note.get("shares")
        if number is not None and shares is not None:
            models[number] = models.get(shares, number)
    return models


def longest(phases: list[Phase]) -> Phase:
    """The one that is looked at: the longest of those with enough calls; that with most calls where none has."""
    enough = [phase for phase in phases if phase.calls >= ENOUGH_CALLS]
    return max(enough, key=lambda phase: phase.length_ns) if enough else max(phases, key=lambda phase: phase.calls)


def elsewhere(
    phases: list[Phase], looked_at: Phase, ways: Mapping[int, tuple[Frame, ...]], trainings: tuple[TrainingInTurn, ...] = ()
) -> Elsewhere | None:
    """What the other phases hold; None where there are none."""
    others = [phase for phase in phases if phase is not looked_at]
    if not others:
        return None
    length_ns = sum(phase.length_ns for phase in others)
    whole_ns = max(length_ns + looked_at.length_ns, 1)
    unlike = [phase for phase in others if not _are_alike(phase, looked_at, ways)]
    return Elsewhere(
        updates=sum(phase.updates for phase in others),
        anchors=tuple(phase.anchor for phase in others),
        share=length_ns / whole_ns,
        unlike_share=sum(phase.length_ns for phase in unlike) / whole_ns,
        before=phases.index(looked_at),
        trainings=trainings,
    )


def _are_alike(one: Phase, other: Phase, ways: Mapping[int, tuple[Frame, ...]]) -> bool:
    way = ways.get(one.anchor)
    if not way or way != ways.get(other.anchor):
        return False
    each, usual = (phase.length_ns / max(phase.calls - 1, 1) for phase in (one, other))
    return usual / ALIKE <= each <= usual * ALIKE


def _rows(phases: list[Phase], ways: Mapping[int, tuple[Frame, ...]]) -> list[list[Phase]]:
    """Phases of one optimizer each that the same line calls, one after the other, in rows."""
    rows: list[list[Phase]] = []
    for phase in phases:
        last, way = rows[-1][-1] if rows else None, ways.get(phase.anchor)
        if last and len(last.optimizers) == len(phase.optimizers) == 1 and way and way == ways.get(last.anchor):
            rows[-1].append(phase)
        else:
            rows.append([phase])
    return rows


def _of_row(row: list[Phase], models: Mapping[int, int]) -> list[Phase]:
    """The trainings of a row: one for each model, where they follow one another and are few enough to be looked at singly."""
    if not all(phase.anchor in models for phase in row):
        return [_one(row)]
    trainings = [_one(list(phases)) for _, phases in groupby(row, key=lambda phase: models[phase.anchor])]
    take_turns = len(trainings) > len({models[phase.anchor] for phase in row})
    most_ns, whole_ns = (of(phase.length_ns for phase in trainings) for of in (max, sum))
    if take_turns or longest(trainings).calls < ENOUGH_CALLS or most_ns < LONGEST_SHARE * whole_ns:
        return [replace(_one(row), models=len({models[phase.anchor] for phase in row}))]
    return trainings


def _one(phases: list[Phase]) -> Phase:
    return reduce(lambda before, after: _sum_of(before, after, before, calls=before.calls + after.calls), phases)


def _sum_of(before: Phase, after: Phase, anchor: Phase, *, calls: int) -> Phase:
    return Phase(
        optimizers=before.optimizers + after.optimizers,
        anchor=anchor.anchor,
        anchor_start_ns=anchor.anchor_start_ns,
        calls=calls,
        updates=before.updates + after.updates,
        start_ns=before.start_ns,
        end_ns=max(before.end_ns, after.end_ns),
    )
