"""Whether the training thread itself makes the batches of an input that the script names with `slowstep.steps`, or waits for who does."""

from __future__ import annotations

import polars as pl

from slowstep.analyses.python.functions import FEWEST_STACKS, Stacks, inside, is_waiting
from slowstep.record.writing.format import FIRST_OF_STEPS
from slowstep.shares import MOSTLY


def made_here(fetches: pl.DataFrame, stacks: Stacks) -> pl.DataFrame:
    """The fetches of one thread, which has these `stacks`, without requests to `slowstep.steps` for batches that others make."""
    asked = pl.col("iterator").fill_null(0) >= FIRST_OF_STEPS
    return fetches.filter(~asked) if _is_made_elsewhere(fetches.filter(asked).sort("start_ns"), stacks) else fetches


def _is_made_elsewhere(asked: pl.DataFrame, stacks: Stacks) -> bool:
    """Whether others make them, or may: who does is not known of a thread that is blocked without a stack that shows where."""
    wall_ns = float((asked["end_ns"] - asked["start_ns"]).sum())
    blocked_ns = wall_ns - float(asked["cpu_ns"].sum()) - float(asked["delay_ns"].fill_null(0).sum())
    # So much of the time: of a request, in which its own thread computes or waits for a core; of what it is blocked, in which other threads
    # compute, or in which its stacks stand in Python's means of waiting for another thread.
    if blocked_ns <= (1 - MOSTLY) * wall_ns:
        return False
    if float(asked["other_cpu_ns"].fill_null(0).sum()) >= MOSTLY * blocked_ns:
        return True
    taken = inside(stacks, asked["start_ns"].to_numpy(), asked["end_ns"].to_numpy())
    paths = stacks.paths(taken.tolist())
    waiting = sum(weight for weight, path in paths if is_waiting(path))
    return len(paths) < FEWEST_STACKS or waiting >= MOSTLY * sum(weight for weight, _ in paths)
