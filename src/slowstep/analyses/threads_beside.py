"""Python threads of the script's own beside the training thread: which of them compute, and what."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import polars as pl

from slowstep.analyses.functions import inside, is_library, is_waiting, read_stacks
from slowstep.analyses.steps import Steps
from slowstep.analyses.trainer import Trainer
from slowstep.timeline.timeline import Frame, Timeline

# Of a core. A thread that holds the interpreter's lock less than that costs the others less than a finding must.
BUSY_FROM = 0.10
# Fewer stacks than this of a thread name nothing in it.
FEWEST_STACKS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadBeside:
    """One such thread. `function` is the user's own with most of its stacks, None where nothing of the user's was seen in it."""

    name: str
    cores: float  # that it used, on average over the window
    function: Frame | None


def find_threads_beside(timeline: Timeline, trainer: Trainer, steps: Steps) -> tuple[ThreadBeside, ...]:
    """Those that used at least BUSY_FROM of a core, the busiest first. Empty too where the kernel does not say what threads use."""
    mine = pl.col("process") == trainer.process
    low, high = int(steps.edges_ns[0]), int(steps.edges_ns[-1])
    names = dict(timeline.table("threads").filter(mine, pl.col("thread") != trainer.thread).select("thread", "name").iter_rows())
    marks = timeline.table("cpu_marks").filter(mine, pl.col("thread").is_in(list(names)), pl.col("time_ns") <= high).sort("time_ns")
    found = []
    for (thread,), rows in marks.group_by("thread", maintain_order=True):
        before = rows.filter(pl.col("time_ns") <= low)
        used_ns = rows["cpu_ns"][-1] - (before["cpu_ns"][-1] if before.height else rows["cpu_ns"][0])
        cores = used_ns / (high - low)
        if cores >= BUSY_FROM:
            found.append(ThreadBeside(name=names[thread], cores=cores, function=_function(timeline, trainer, steps, int(str(thread)))))
    return tuple(sorted(found, key=lambda each: -each.cores))


def _function(timeline: Timeline, trainer: Trainer, steps: Steps, thread: int) -> Frame | None:
    stacks = read_stacks(timeline, trainer.process, thread)
    taken = inside(stacks, steps.edges_ns[:1], steps.edges_ns[-1:])
    held: dict[tuple[str, str, int], float] = defaultdict(float)
    for weight, path in stacks.paths(taken.tolist()):
        own = next((frame for frame in reversed(path) if not is_library(frame)), None)
        if own is not None and not is_waiting(path):
            held[own.file, own.function, own.first_line] += weight
    if len(taken) < FEWEST_STACKS or not held:
        return None
    file, function, first_line = max(held, key=lambda place: held[place])
    return Frame(file=file, function=function, first_line=first_line, line=first_line)
