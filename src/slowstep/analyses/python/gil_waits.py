"""How often another thread than the training one had to wait for the GIL while a step computed: the recorder's, which asks now and then.

It asks with every stack, at times of its own. Where another Python thread holds the GIL, it waits as the training thread does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from slowstep.analyses.python.binomial import share_bounds
from slowstep.analyses.steps.forwards import find_forwards
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.timeline import Timeline

# A stack that is taken on time is 0.1 to 0.15 ms late: the thread wakes up, and takes the GIL that nobody holds. Where no other thread
# computes in Python more than this is rare, 0 to 30 % of tries in bodies (36 recordings), as operators let go of the GIL. Where one does,
# its loops or conversions keep it: 60 % of tries with threads that computed for 55 and 70 % of the time.
LATE_NS = 500_000
WAITS_FROM = 0.4
# The most without such a thread.
USUAL_AT_MOST = 0.3


@dataclass(frozen=True, kw_only=True, slots=True)
class GilWaits:
    """Of so many times `asked` in bodies of steps it `waited` so often. Other threads compute for the share `busy` of their time; where it
    is `crowded`, for all cores are used, it may have waited for one.
    """

    asked: int
    waited: int
    busy: float = 1.0
    crowded: bool = False

    @property
    def share(self) -> float:
        """How often it waited."""
        return self.waited / self.asked

    @property
    def bounds(self) -> tuple[float, float]:
        """The 90 % interval of that."""
        return share_bounds(self.waited, self.asked)

    @property
    def shows_held(self) -> bool | None:
        """Whether another thread holds the GIL where it computes; None where that is not certain."""
        (low, high), held = self.bounds, WAITS_FROM * self.busy
        if low >= max(held, USUAL_AT_MOST):
            return None if self.crowded else True
        return False if high < held else None


def find_gil_waits(timeline: Timeline, trainer: Trainer, steps: Steps, *, busy: float, crowded: bool) -> GilWaits | None:
    """With threads that compute for the share `busy` of their time. None where no stack was taken in a body, and of a recording that tells
    of none how late it was.
    """
    mine = pl.col("process") == trainer.process, pl.col("thread") == trainer.thread
    rows = timeline.table("stacks").filter(*mine).select("time_ns", "lateness_ns").drop_nulls().sort("time_ns")
    time, late = rows["time_ns"].to_numpy(), rows["lateness_ns"].to_numpy()
    forwards, backwards = find_forwards(trainer.spans, trainer.update_end_ns).bodies_ns, trainer.backwards["start_ns"].to_numpy()
    begins, ends = np.sort(np.concatenate((forwards, backwards))), trainer.update_end_ns
    at = np.searchsorted(ends, time)
    # In a body is what comes after the first forward or backward since the update before, up to the next one.
    begun = np.searchsorted(begins, time) > np.searchsorted(begins, np.append(0, ends)[at])
    within = begun & (at < len(ends)) & steps.step_at(time)[1]
    if not within.any() or not late.any():
        return None
    return GilWaits(asked=int(within.sum()), waited=int((late[within] > LATE_NS).sum()), busy=busy, crowded=crowded)
