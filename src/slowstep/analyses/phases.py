"""Trainings that follow one another on a thread, each with an optimizer of its own: folds, clients, a pretraining and what comes after it.

Optimizers of which each makes its first call after the last one of the one before. Where the same line calls them they are one training's:
its optimizer is only made anew. From different lines they are phases, each with a loop of its own: one is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from slowstep.timeline.timeline import Frame

# A verdict needs so many steps, and some before them to warm up (the design's): of a shorter phase nothing could be said.
ENOUGH_CALLS = 40


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

    @property
    def length_ns(self) -> int:
        """From its first update to its last."""
        return self.end_ns - self.start_ns

    @property
    def is_made_anew(self) -> bool:
        """Whether its optimizers follow one another as one training's."""
        return len(self.optimizers) > 1 and self.calls == self.updates


@dataclass(frozen=True, kw_only=True, slots=True)
class Elsewhere:
    """The phases of a thread that are not looked at: their updates, the anchors of each, and their share of the time of all phases."""

    updates: int
    anchors: tuple[int, ...]
    share: float


def find_phases(updates: pl.DataFrame, ways: Mapping[int, tuple[Frame, ...]], *, apart: bool = True) -> list[Phase]:
    """The phases of one thread's updates, in their order; `ways` are the frames that lead to each optimizer's call, where known.

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
    return _joined(together, ways)


def longest(phases: list[Phase]) -> Phase:
    """The one that is looked at: the longest of those with enough calls; that with most calls where none has."""
    enough = [phase for phase in phases if phase.calls >= ENOUGH_CALLS]
    return max(enough, key=lambda phase: phase.length_ns) if enough else max(phases, key=lambda phase: phase.calls)


def elsewhere(phases: list[Phase], looked_at: Phase) -> Elsewhere | None:
    """What the other phases hold; None where there are none."""
    others = [phase for phase in phases if phase is not looked_at]
    if not others:
        return None
    length_ns = sum(phase.length_ns for phase in others)
    return Elsewhere(
        updates=sum(phase.updates for phase in others),
        anchors=tuple(phase.anchor for phase in others),
        share=length_ns / max(length_ns + looked_at.length_ns, 1),
    )


def _joined(phases: list[Phase], ways: Mapping[int, tuple[Frame, ...]]) -> list[Phase]:
    """Phases of one optimizer each that the same line calls are one."""
    joined: list[Phase] = []
    was_single = False
    for phase in phases:
        is_single, way = len(phase.optimizers) == 1, ways.get(phase.anchor)
        if was_single and is_single and way and way == ways.get(joined[-1].anchor):
            joined[-1] = _sum_of(joined[-1], phase, joined[-1], calls=joined[-1].calls + phase.calls)
        else:
            joined.append(phase)
        was_single = is_single
    return joined


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
