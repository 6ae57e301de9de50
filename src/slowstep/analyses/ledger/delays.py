"""What the training thread stood still for inside its spans: other ranks, a core, storage. It moves to parts of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from slowstep.analyses.batches.producers import OF_LOADER
from slowstep.analyses.sharing.sharing import STAGE as SHARING
from slowstep.analyses.sharing.sharing import blocked_in_backward
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.parts import BACKWARD, Part, PartKind
from slowstep.stages import RESULT_STAGES, UNATTRIBUTED
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Timeline

# Waiting for a core is told apart already, and the collector computes all the time.
_NOT_OWN = (PartKind.CORE_WAIT, PartKind.COLLECTION)


def move_sharing(timeline: Timeline, trainer: Trainer, steps: Steps, rows: dict[Part, Floats]) -> None:
    """What the training thread was blocked in backward, with other ranks about, is gradient sharing."""
    held = rows.get(BACKWARD)
    blocked = blocked_in_backward(timeline, trainer, steps.edges_ns)
    if held is None or not blocked.any():
        return
    moved = np.minimum(blocked, held)
    rows[BACKWARD] = held - moved
    _add(rows, Part(SHARING, PartKind.RANK_WAIT), moved)


def move_delay(timeline: Timeline, trainer: Trainer, steps: Steps, rows: dict[Part, Floats], *, beside_cores: float = 0.0) -> None:
    """Run-queue delay of the training thread stays in the stage where it happened, as a part of its own.

    In a loop that is not fed what its making of input was blocked is told from what it computed: `read`. So is what it was blocked in
    bodies where other Python threads of the process, which use `beside_cores`, may have held it up.
    """
    marked = _marked(timeline, trainer, steps)
    if marked is None:
        return
    _take(rows, marked.per_step(marked.delay_ns, marked.body), ("compute",))
    # What of a loader is in `preprocess` has its own account (`_is_of_loader`).
    outside = ("preprocess", *RESULT_STAGES, UNATTRIBUTED)
    _take(rows, marked.per_step(marked.delay_ns, marked.rest), outside)
    if not trainer.is_fed:
        _move_blocked(rows, marked.per_step(marked.blocked_ns, marked.rest), outside)
    if beside_cores > 0:
        _move_held_up(rows, marked, beside_cores)


@dataclass(frozen=True, slots=True)
class _Marked:
    """The stretches between two marks of the training thread's clock: the step that each is in (of `count`), whether it held a body or
    the rest of a step, and its length, run-queue delay and what it was blocked besides.
    """

    step: Ints
    count: int
    body: NDArray[np.bool_]
    rest: NDArray[np.bool_]
    wall_ns: Floats
    delay_ns: Floats
    blocked_ns: Floats

    def per_step(self, ns: Floats, of: NDArray[np.bool_]) -> Floats:
        return np.bincount(self.step[of], weights=ns[of], minlength=self.count).astype(np.float64)


def _marked(timeline: Timeline, trainer: Trainer, steps: Steps) -> _Marked | None:
    marks = timeline.table("cpu_marks").filter(pl.col("process") == trainer.process, pl.col("thread") == trainer.thread).sort("time_ns")
    if marks.height < 2:
        return None
    time, delay = marks["time_ns"].to_numpy(), np.maximum(np.diff(marks["delay_ns"].to_numpy()).astype(np.float64), 0)
    update = np.searchsorted(np.sort(trainer.all_updates["end_ns"].to_numpy()), time, side="right")
    step, usable = steps.stretch_at(time[1:])
    # What the thread waited while steps were only counted belongs to none of the others.
    left_out = np.concatenate(([0], np.cumsum(steps.excluded)))[np.clip(np.searchsorted(steps.edges_ns, time), 0, steps.stretches)]
    usable &= np.diff(left_out) == 0
    # A stretch in which an update ended held a body; any other held the wait and what came before it.
    body = usable & (np.diff(update) > 0)
    wall = np.diff(time).astype(np.float64)
    return _Marked(
        step=step,
        count=steps.stretches,
        body=body,
        rest=usable & ~body,
        wall_ns=wall,
        delay_ns=delay,
        blocked_ns=np.maximum(wall - np.diff(marks["cpu_ns"].to_numpy()) - delay, 0.0),
    )


def _move_held_up(rows: dict[Part, Floats], marked: _Marked, beside_cores: float) -> None:
    """Move what bodies were blocked to a part of its own: no more than the threads beside computed meanwhile."""
    wall = float(marked.wall_ns[marked.body].sum())
    if not wall:
        return
    # Of steps that are too short for marks of their own, those that have some tell.
    share = min(float(marked.blocked_ns[marked.body].sum()) / wall, beside_cores)
    for part in [part for part in rows if part.stage == "compute" and part.kind not in _NOT_OWN]:
        moved = rows[part] * share
        rows[part] = rows[part] - moved
        _add(rows, Part("compute", PartKind.HELD_UP), moved)


def _move_blocked(rows: dict[Part, Floats], blocked: Floats, outside: tuple[str, ...]) -> None:
    """Move what the loop's own input was blocked from preprocess to read: its share of what all was blocked outside the bodies."""
    waiting = [part for part in rows if part.kind is PartKind.THREAD_WAIT or _is_of_loader(part)]
    gaps = [part for part in rows if part.stage in outside and part.kind not in _NOT_OWN and part not in waiting]
    making = [part for part in gaps if part.stage == "preprocess"]
    if not making:
        return
    left = np.maximum(blocked - np.sum([rows[part] for part in waiting], axis=0), 0.0) if waiting else blocked
    held = np.sum([rows[part] for part in gaps], axis=0)
    share = np.divide(np.minimum(left, held), held, out=np.zeros_like(held), where=held > 0)
    for part in making:
        moved = rows[part] * share
        rows[part] = rows[part] - moved
        _add(rows, Part("read", PartKind.BLOCKED), moved)


def _is_of_loader(part: Part) -> bool:
    """Whether it is a part of waits for a loader's batches, which have their own account of cores and of storage."""
    return part.stage in ("read", "preprocess") and part.kind in OF_LOADER


def _take(rows: dict[Part, Floats], delay: Floats, stages: tuple[str, ...]) -> None:
    """Move `delay` per step out of the parts of some stages, in proportion, never more than they hold."""
    mine = [part for part in rows if part.stage in stages and part.kind is not PartKind.CORE_WAIT and not _is_of_loader(part)]
    if not mine:
        return
    held = np.sum([rows[part] for part in mine], axis=0)
    share = np.divide(np.minimum(delay, held), held, out=np.zeros_like(held), where=held > 0)
    for part in mine:
        moved = rows[part] * share
        rows[part] = rows[part] - moved
        _add(rows, Part(part.stage, PartKind.CORE_WAIT), moved)


def _add(rows: dict[Part, Floats], part: Part, ns: Floats) -> None:
    rows[part] = rows.get(part, np.zeros_like(ns)) + ns
