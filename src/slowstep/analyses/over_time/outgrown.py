"""Parts of the step that take far longer than they did in the gaps in which calls were timed.

Calls are timed mostly in early steps. Of what grows they tell what it did while it was small: of a list that is written as JSON the opening
of the file.
"""

from __future__ import annotations

import numpy as np

from slowstep.analyses.after_update.timed_gaps import TimedGaps
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.over_time.even_pace import pace_of
from slowstep.analyses.over_time.growth import SMALLEST_SHARE, trend_at_even_pace
from slowstep.analyses.over_time.pace import work_of_model
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.analyses.steps.trends import Trend
from slowstep.parts import Part
from slowstep.stages import RESULT_STAGES
from slowstep.timeline.intervals import Ints

# What takes half as long again as when its calls were timed may be busy with something else by then.
GROWN = 1.5


def find_outgrown(ledger: Ledger, steps: Steps, trainer: Trainer, gaps: TimedGaps | None) -> frozenset[Part]:
    """Parts of the time after updates that surely grow, and over the window take far more than in the timed gaps, by their lines.

    None is known where no gap was timed, or in too few steps for a line.
    """
    if gaps is None or not gaps.began_ns:
        return frozenset()
    least = SMALLEST_SHARE * ledger.whole
    parts = [part for part in ledger.parts if part.stage in RESULT_STAGES and ledger.total_of(part) >= least]
    if not parts:
        return frozenset()
    timed, pace = _steps_of(np.array(gaps.began_ns), steps, trainer), pace_of(work_of_model(ledger))
    trends = {part: trend_at_even_pace(ledger, part, pace) for part in parts}
    return frozenset(part for part, trend in trends.items() if trend is not None and _outgrows(trend, timed / steps.stretches))


def _steps_of(began_ns: Ints, steps: Steps, trainer: Trainer) -> Ints:
    """After which updates the gaps were timed, counted from the window's first step: before it they are negative."""
    ends_ns = trainer.update_end_ns
    return np.asarray(np.searchsorted(ends_ns, began_ns, side="right") - np.searchsorted(ends_ns, steps.edges_ns[0], side="right"))


def _outgrows(trend: Trend, at: Floats) -> bool:
    """Whether the line's mean is far above its values at some places (0: the window's first step, 1: its last).

    Without 95 % certainty that it grows it is not: a machine's pace changes a part as much.
    """
    then = np.clip(trend.first + trend.growth * at, 0, None).mean()
    return trend.growth_likely > 0 and bool((trend.first + trend.last) / 2 >= GROWN * then)
