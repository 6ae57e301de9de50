"""Which stage of an input pipeline holds up the training: that which takes most in the thread that is at work all the time."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from slowstep.analyses.input.pipeline_stage import PipelineStage, PipelineThread, way_to_training
from slowstep.calibration import loading

# A thread that holds up the training is at work all the time.
AT_WORK: Final = loading.STAGE_AT_WORK.value
# A thread cannot be at work for longer than batches are apart; what was read at the ends of a window can be off by a few elements of it.
# By how many is assumed: where it is by more, none is named.
AT_MOST: Final = 1.25
# A buffer that is filled further keeps nobody waiting (tensorpack's rule: near its size is good, near zero starves). Where between the two
# is assumed.
FILLED: Final = 0.5


def find_slowest(stages: tuple[PipelineStage, ...], interval_ns: float, *, is_capped: bool = True) -> tuple[int | None, float | None]:
    """The stage that takes most in the thread that is at work all the time, and the time between batches which that allows.

    Threads of which the results lie ready are left out. None where no other is at work all the time, where another one may take longer, or
    where it is not known of all of them how many calls they make at once: whether there is a core for each (`is_capped`), or because by
    what is known batches could not have come as fast as they did. What runs in the training's own request holds it up however long it
    takes.
    """
    bounds: dict[PipelineThread, float] = defaultdict(float)
    for stage in stages:
        bounds[stage.thread] += stage.bound_ns
    if not bounds or not _are_servers_known(bounds, interval_ns, is_capped=is_capped):
        return None, None
    for thread in sorted(bounds, key=lambda each: -bounds[each]):
        works = [number for number, stage in enumerate(stages) if stage.thread == thread and stage.works]
        slowest = max(works, key=lambda number: stages[number].busy_ns, default=None)
        if slowest is not None and _ready(stages, slowest) >= FILLED:
            continue
        is_at_work = thread.does == "asks" or bounds[thread] >= AT_WORK * interval_ns
        found = slowest is not None and is_at_work and _takes_longest(stages, slowest, bounds[thread])
        return (slowest, bounds[thread]) if found else (None, None)
    return None, None


def _are_servers_known(bounds: dict[PipelineThread, float], interval_ns: float, *, is_capped: bool) -> bool:
    return (is_capped or all(thread.servers == 1 for thread in bounds)) and max(bounds.values()) <= AT_MOST * interval_ns


def _takes_longest(stages: tuple[PipelineStage, ...], slowest: int, bound_ns: float) -> bool:
    """Whether none takes longer of which it is not known how much it takes, nor the thread that it is in."""
    most: dict[PipelineThread, float] = defaultdict(float)
    for number, stage in enumerate(stages):
        most[stage.thread] += stage.most_ns / stage.thread.servers
        is_beside = stage.thread == stages[slowest].thread and number != slowest
        if is_beside and stage.is_shared and stage.most_ns > stages[slowest].busy_ns:
            return False
    unknown = {stage.thread for stage in stages if stage.is_shared} - {stages[slowest].thread}
    return all(most[thread] <= bound_ns for thread in unknown)


def ready_share(stages: tuple[PipelineStage, ...], interval_ns: float) -> float | None:
    """How full the emptiest of the buffers is that hand batches to the training; None where it may wait for what makes them.

    It may where one of them is less than half full, where a thread is at work all the time, and for what runs in its own request.
    """
    works = [number for number, stage in enumerate(stages) if stage.works]
    most: dict[PipelineThread, float] = defaultdict(float)
    for number in works:
        most[stages[number].thread] += stages[number].most_ns / stages[number].thread.servers
    if not works or max(most.values()) >= AT_WORK * interval_ns:
        return None
    ready = min((_ready(stages, number) for number in works if stages[number].thread.does != "asks"), default=0.0)
    return ready if ready >= FILLED else None


def asked_ns(stages: tuple[PipelineStage, ...]) -> float:
    """The time per batch in what runs in the training's own request, at most."""
    return sum(stage.most_ns for stage in stages if stage.thread.does == "asks")


def _ready(stages: tuple[PipelineStage, ...], number: int) -> float:
    """How full the fullest buffer on the way to the training is, its own included: nothing behind a filled one is waited for."""
    return max(stage.full or 0.0 for stage in way_to_training(stages, stages[number]))
