"""Runs an experiment to its end: posts the plan, looks at the steps while they come, stops, ends the training, and says what was found.

Whatever happens - the script ends, hangs or never trains, somebody presses Ctrl-C - the training is ended, and what was measured until
then is told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Final

from slowstep.prove.ended_by import EndedBy
from slowstep.prove.executor import Executor, surely_ended
from slowstep.prove.outcome import ExperimentOutcome, Interim
from slowstep.prove.stats.design import MIN_ROUNDS
from slowstep.prove.stats.plan import Plan
from slowstep.prove.watch import ExperimentWatch

# Often enough to stop in time; estimating eight arms takes some 30 ms of a core that the training may want.
LOOK_S: Final = 1.0


def run(
    executor: Executor,
    plan: Plan,
    *,
    precision: float = 0.05,
    budget_s: float = 60.0,
    min_rounds: int = MIN_ROUNDS,
    on_progress: Callable[[Interim], None] | None = None,
    floors: Mapping[int, float] | None = None,
    corrected: Callable[[], Collection[int]] = tuple,
    own_long: Collection[int] = (),
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> ExperimentOutcome:
    """Run a plan in a training that has been started, and end that training. `floors`, `corrected` and `own_long` are those of `estimate`;
    what is `corrected` is asked for with each estimate, since others come to the machine and leave it.

    It ends when the 95 % intervals of all levers that are left are narrower than `precision` (half the width, as a share: 0.05 is a factor
    of 1.05 either way) after at least `min_rounds` rounds, or after `budget_s` seconds since the training took the plan up.
    """
    watch = ExperimentWatch(executor, plan, floors=floors, corrected=corrected, own_long=own_long, clock=clock)

    def until_ended() -> EndedBy:
        try:
            executor.post(plan)
            while True:
                sleep(LOOK_S)
                ended = watch.look(precision, budget_s, min_rounds)
                if on_progress is not None:
                    on_progress(watch.interim())
                if ended is not None:
                    return ended
        except KeyboardInterrupt:
            return EndedBy.INTERRUPTED

    try:
        ended_by = until_ended()
    finally:
        ending = surely_ended(executor)
    return watch.outcome(EndedBy.INTERRUPTED if ending.interrupted else ended_by, ending)
