"""Python threads of the script's own beside the one that trains: which of them compute, and what."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import polars as pl

from slowstep.analyses.python.functions import FEWEST_STACKS, inside, is_library, is_waiting, read_stacks
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.timeline import Frame, Timeline

HOOK = "threads_beside"
# Of a core, all together: threads that hold the GIL less than that cost the training less than a verdict is about.
COMPUTING_FROM = 0.10


@dataclass(frozen=True, kw_only=True, slots=True)
class ConcurrentThread:
    """One such thread. `function` is the user's own with most of its stacks, None where nothing of the user's was seen in it."""

    name: str
    thread: int
    cores: float  # that it used, on average over the window
    function: Frame | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ConcurrentThreads:
    """Those that computed, the busiest first; `looked_at` tells whether it was looked for them at all."""

    looked_at: bool
    threads: tuple[ConcurrentThread, ...]

    @property
    def cores(self) -> float:
        """What all of them used; 0 below COMPUTING_FROM."""
        used = sum(thread.cores for thread in self.threads)
        return used if used >= COMPUTING_FROM else 0.0


def find_concurrent_threads(timeline: Timeline, trainer: Trainer, steps: Steps) -> ConcurrentThreads:
    """The threads that used a hundredth of a core and more somewhere in the window."""
    mine = pl.col("process") == trainer.process
    low, high = int(steps.edges_ns[0]), int(steps.edges_ns[-1])
    names = dict(timeline.table("threads").filter(mine, pl.col("thread") != trainer.thread).select("thread", "name").iter_rows())
    marks = timeline.table("cpu_marks").filter(mine, pl.col("thread").is_in(list(names))).sort("time_ns")
    found = []
    for (thread,), rows in marks.group_by("thread", maintain_order=True):
        # Between two marks it used its time evenly, before the first and after the last none that is known.
        used = np.interp([low, high], rows["time_ns"].to_numpy(), rows["cpu_ns"].to_numpy().astype(np.float64))
        if used[1] > used[0]:
            number, cores = int(str(thread)), float(used[1] - used[0]) / (high - low)
            function = _function(timeline, trainer, steps, number)
            found.append(ConcurrentThread(name=names[thread], thread=number, cores=cores, function=function))
    hooks = trainer.facts.notes.get("hooks", ())
    looked_at = bool(found) or any(hook.get("name") == HOOK and hook.get("state") == "on" for hook in hooks)
    return ConcurrentThreads(looked_at=looked_at, threads=tuple(sorted(found, key=lambda each: -each.cores)))


def _function(timeline: Timeline, trainer: Trainer, steps: Steps, thread: int) -> Frame | None:
    stacks = read_stacks(timeline, trainer.process, thread)
    taken = inside(stacks, steps.edges_ns[:1], steps.edges_ns[-1:])
    held: dict[tuple[str, str, int], float] = defaultdict(float)
    for weight, path in stacks.paths(taken.tolist()):
        # A generator's expression and a lambda have no name: what made them has.
        named = (frame for frame in reversed(path) if not is_library(frame) and not frame.function.endswith(">"))
        own = next(named, None)
        if own is not None and not is_waiting(path):
            held[own.file, own.function, own.first_line] += weight
    if len(taken) < FEWEST_STACKS or not held:
        return None
    file, function, first_line = max(held, key=lambda place: held[place])
    return Frame(file=file, function=function, first_line=first_line, line=first_line)
