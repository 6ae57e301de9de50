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
from slowstep.parts import BACKWARD, NOT_ATTRIBUTED, Part, PartKind
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


def move_delay(
    timeline: Timeline,
    trainer: Trainer,
    steps: Steps,
    rows: dict[Part, Floats],
    *,
    beside_cores: float = 0.0,
    gil_is_held: bool = False,
) -> None:
    """Run-queue delay of the training thread stays in the stage where it happened, as a part of its own.

    In a loop that is not fed what its making of input was blocked is told from what it computed: `read`. So is what it was blocked in
    bodies where other Python threads of the process, which use `beside_cores`, may have held it up; and where the `gil_is_held`, as is
    seen, what it was blocked in gaps that nothing names, and in its making of input no more than in bodies: that may read.
    """
    marked = _marked(timeline, trainer, steps)
    if marked is None:
        return
    _take(rows, marked.per_step(marked.delay_ns, marked.body), ("compute",))
    # What of a loader is in `preprocess` has its own account (`_is_of_loader`).
    outside = ("preprocess", *RESULT_STAGES, UNATTRIBUTED)
    _take(rows, marked.per_step(marked.delay_ns, marked.rest), outside)
    blocked = _blocked_share(rows, marked.per_step(marked.blocked_ns, marked.rest), outside)
    if beside_cores > 0:
        _move_held_up(rows, marked, beside_cores)
    held = _move_held_in_gaps(rows, np.minimum(blocked, beside_cores)) if gil_is_held else np.zeros_like(blocked)
    if not trainer.is_fed and not trainer.is_asynchronous:
        left = np.divide(blocked - held, 1 - held, out=np.zeros_like(held), where=held < 1)
        _move_blocked(rows, left)


def blocked_in_making(timeline: Timeline, trainer: Trainer, steps: Steps, rows: dict[Part, Floats]) -> float:
    """How much of its making of input a thread was blocked at least, whose calls return before their work is done.

    Such a thread is marked once a step: all that it may have been blocked elsewhere is taken off first, over all steps, for no mark lies
    at the edge of a step.
    """
    marked = _marked(timeline, trainer, steps)
    making = _making(rows)
    if marked is None or trainer.is_fed or not making:
        return 0.0
    elsewhere = [part for part in rows if part not in making and part.kind is not PartKind.CORE_WAIT]
    blocked = float(marked.blocked_ns[marked.body | marked.rest].sum()) - sum(float(rows[part].sum()) for part in elsewhere)
    made = sum(float(rows[part].sum()) for part in making)
    return min(max(blocked / made, 0.0), 1.0) if made else 0.0


def with_blocked(rows: dict[Part, Floats], share: float) -> dict[Part, Floats]:
    """The rows with that share of the making of input as what it was blocked."""
    moved = dict(rows)
    _move_blocked(moved, share)
    return moved


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
        _move_to_held_up(rows, part, share)


def _move_held_in_gaps(rows: dict[Part, Floats], blocked: Floats) -> Floats:
    """Move what gaps were blocked by those threads, and return what share of making input that was."""
    at_most = float(rows[Part("compute", PartKind.HELD_UP)].mean()) if Part("compute", PartKind.HELD_UP) in rows else 0.0
    making = _making(rows)
    whole = blocked * np.sum([rows[part] for part in making], axis=0) if making else np.zeros_like(blocked)
    share = blocked * np.minimum(np.divide(at_most, whole, out=np.ones_like(whole), where=whole > 0), 1.0)
    for part in making:
        _move_to_held_up(rows, part, share)
    if NOT_ATTRIBUTED in rows:
        _move_to_held_up(rows, NOT_ATTRIBUTED, blocked)
    return share


def _making(rows: dict[Part, Floats]) -> list[Part]:
    """The parts of the loop's own making of input."""
    return [part for part in rows if part.stage == "preprocess" and part.kind not in _NOT_OWN and not _is_waiting(part)]


def _move_to_held_up(rows: dict[Part, Floats], part: Part, share: Floats | float) -> None:
    moved = rows[part] * share
    rows[part] = rows[part] - moved
    _add(rows, Part("compute", PartKind.HELD_UP), moved)


def _blocked_share(rows: dict[Part, Floats], blocked: Floats, outside: tuple[str, ...]) -> Floats:
    """How much of what is done outside the bodies, waits for input left out, the thread was blocked, of what it was there per step."""
    waiting = [part for part in rows if _is_waiting(part)]
    gaps = [part for part in rows if part.stage in outside and part.kind not in _NOT_OWN and part not in waiting]
    left = np.maximum(blocked - np.sum([rows[part] for part in waiting], axis=0), 0.0) if waiting else blocked
    held = np.sum([rows[part] for part in gaps], axis=0) if gaps else np.zeros_like(blocked)
    return np.divide(np.minimum(left, held), held, out=np.zeros_like(held), where=held > 0)


def _is_waiting(part: Part) -> bool:
    return part.kind is PartKind.THREAD_WAIT or _is_of_loader(part)


def _move_blocked(rows: dict[Part, Floats], share: Floats | float) -> None:
    """Move what the loop's own input was blocked from preprocess to read: its share of what all was blocked outside the bodies."""
    for part in _making(rows):
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
