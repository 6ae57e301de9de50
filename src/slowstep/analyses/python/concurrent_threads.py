"""Python threads of the script's own beside the one that trains: which of them compute, and what."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import polars as pl

from slowstep.analyses.python.functions import FEWEST_STACKS, Path, inside, is_library, is_waiting, read_stacks
from slowstep.analyses.python.gil_waits import GilWaits, find_gil_waits
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.timeline import Frame, Timeline

HOOK = "threads_beside"
# Of a core, all together: threads that hold the GIL less than that cost the training less than a verdict is about.
COMPUTING_FROM = 0.10


@dataclass(frozen=True, kw_only=True, slots=True)
class ConcurrentThread:
    """One such thread. `function` is the user's own with most of its stacks, None where nothing of the user's was seen in it. `waits` is
    the share of its time in which it waits for another thread, None with too few stacks.
    """

    name: str
    thread: int
    cores: float  # that it used, on average over the window
    function: Frame | None
    waits: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ConcurrentThreads:
    """Those that computed, the busiest first; `looked_at` tells whether it was looked for them at all. `gil_waits` is None where there are
    none, or nothing tells.
    """

    looked_at: bool
    threads: tuple[ConcurrentThread, ...]
    gil_waits: GilWaits | None = None

    @property
    def cores(self) -> float:
        """What all of them used; 0 below COMPUTING_FROM."""
        used = sum(thread.cores for thread in self.threads)
        return used if used >= COMPUTING_FROM else 0.0

    @property
    def holding_cores(self) -> float:
        """The same of those that may keep the training from the GIL; 0 where it is seen not to wait for that."""
        return 0.0 if self.gil_waits is not None and self.gil_waits.shows_held is False else self.cores


def find_concurrent_threads(timeline: Timeline, trainer: Trainer, steps: Steps, *, crowded: bool = False) -> ConcurrentThreads:
    """The threads that used a hundredth of a core and more somewhere in the window; `crowded` where all cores are used."""
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
            paths = _paths(timeline, trainer, steps, number)
            found.append(ConcurrentThread(name=names[thread], thread=number, cores=cores, function=_function(paths), waits=_waits(paths)))
    hooks = trainer.facts.notes.get("hooks", ())
    looked_at = bool(found) or any(hook.get("name") == HOOK and hook.get("state") == "on" for hook in hooks)
    found.sort(key=lambda each: -each.cores)
    # A thread holds the GIL for no longer than it computes: where it sleeps, or reads, it stands in no file by which it waits for another.
    busy = min(1 - (found[0].waits or 0.0), sum(each.cores for each in found)) if found else 0.0
    gil_waits = find_gil_waits(timeline, trainer, steps, busy=busy, crowded=crowded) if found else None
    return ConcurrentThreads(looked_at=looked_at, threads=tuple(found), gil_waits=gil_waits)


def _paths(timeline: Timeline, trainer: Trainer, steps: Steps, thread: int) -> list[tuple[float, Path]]:
    """The stacks of a thread in the window; none where they are too few."""
    stacks = read_stacks(timeline, trainer.process, thread)
    taken = inside(stacks, steps.edges_ns[:1], steps.edges_ns[-1:])
    return [] if len(taken) < FEWEST_STACKS else stacks.paths(taken.tolist())


def _waits(paths: list[tuple[float, Path]]) -> float | None:
    whole = sum(weight for weight, _ in paths)
    return sum(weight for weight, path in paths if is_waiting(path)) / whole if whole else None


def _function(paths: list[tuple[float, Path]]) -> Frame | None:
    held: dict[tuple[str, str, int], float] = defaultdict(float)
    for weight, path in paths:
        # A generator's expression and a lambda have no name: what made them has.
        named = (frame for frame in reversed(path) if not is_library(frame) and not frame.function.endswith(">"))
        own = next(named, None)
        if own is not None and not is_waiting(path):
            held[own.file, own.function, own.first_line] += weight
    if not held:
        return None
    file, function, first_line = max(held, key=lambda place: held[place])
    return Frame(file=file, function=function, first_line=first_line, line=first_line)
