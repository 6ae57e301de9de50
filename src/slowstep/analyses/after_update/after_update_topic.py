"""The topic `after_update`: what runs between an update and the next step's work."""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.analyses.after_update.activities import Activity
from slowstep.analyses.after_update.timed_gaps import TimedGaps
from slowstep.analyses.after_update.timed_lines import TimedLines
from slowstep.faults import MayLack
from slowstep.parts import Part
from slowstep.timeline.timeline import Place


@dataclass(frozen=True, kw_only=True, slots=True)
class AfterUpdateTopic(MayLack):
    """Calls and lines that were timed in the gaps after updates. None is unknown."""

    gaps: TimedGaps | None  # of a loop that is fed
    gap_lines: TimedLines | None  # of one that is not
    activities: dict[Place, Activity]  # of the user's functions that ran in timed gaps; empty where none was timed
    outgrown: frozenset[Part]  # parts that take far longer than when calls were timed in them
