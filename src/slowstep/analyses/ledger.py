"""The ledger: every instant of the window is charged to one part of one stage (no accelerator: the training thread's time).

Each instant belongs to the innermost span open on the training thread. A body span is added per step, from the receipt of its input
(or its first forward) to the end of its update; what no span covers is named by stacks, or is unattributed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from slowstep.analyses.forwards import Forwards, find_forwards
from slowstep.analyses.functions import Stacks, shown
from slowstep.analyses.gap_parts import divide_gaps
from slowstep.analyses.gaps import BACKGROUND, VALIDATION
from slowstep.analyses.producers import PART_STAGE, STARTUP, UNSEEN, WaitParts
from slowstep.analyses.sharing import STAGE as SHARING
from slowstep.analyses.sharing import WAITING, blocked_in_backward
from slowstep.analyses.steps import Floats, Steps
from slowstep.analyses.timed_gaps import TimedGaps
from slowstep.analyses.trainer import Trainer
from slowstep.stages import CALLBACK, CHECKPOINT, LOGGING, PROGRESS, STAGES, UNATTRIBUTED
from slowstep.timeline.intervals import Ints, innermost
from slowstep.timeline.timeline import Timeline

CORE = "waiting for a core"
FORWARD = "forward and the rest"
BACKWARD = "backward"
SHUTDOWN = "loader shut-down"
# Named callbacks, progress bars, loggers and checkpoints that each hold less than this of the window are shown as one part.
SMALL = "callbacks of less than 0.2 % each"
SMALL_SHARE = 0.002
_FOLDABLE = (CALLBACK, PROGRESS, LOGGING, CHECKPOINT)
# Forwards per step from which on what lies between them may be anything: a student and its teacher make two.
SEVERAL_FORWARDS = 3
Part = tuple[str, str]  # stage, part


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """Row meaning: one row per part; `ns` has a column per step of the window. All rows and columns sum to the steps' time exactly."""

    parts: tuple[Part, ...]
    ns: Floats
    gap_stacks: dict[Part, int]  # parts that stacks named, and by how many
    timed: dict[Part, int] = field(default_factory=dict)  # parts that timed calls named, and in how many gaps

    def of(self, stage: str, *names: str) -> Floats:
        """Time per step of a stage, of some of its parts where named. Shape (steps,)."""
        rows = [i for i, (s, name) in enumerate(self.parts) if s == stage and (not names or name in names)]
        return np.asarray(self.ns[rows].sum(axis=0)) if rows else np.zeros(self.ns.shape[1])

    def share(self, stage: str, *names: str) -> float:
        """Share of the window, 0 to 1."""
        return float(self.of(stage, *names).sum() / self.ns.sum())


@dataclass(frozen=True, slots=True)
class _Spans:
    """Labelled spans of the training thread, to be charged."""

    start: Ints
    end: Ints
    part: list[Part]


def with_core_delay(ledger: Ledger, stage: str, *names: str) -> Floats:
    """Time per step of some parts of a stage, with their share of what the stage waited for a core in that step."""
    own, delay = ledger.of(stage, *names), ledger.of(stage, CORE)
    others = ledger.of(stage) - delay
    share = np.divide(own, others, out=np.zeros_like(own), where=others > 0)
    return np.asarray(own + delay * share)


def build_ledger(
    timeline: Timeline,
    trainer: Trainer,
    steps: Steps,
    waits: WaitParts,
    stacks: Stacks,
    gaps: TimedGaps | None = None,
    *,
    device: str = "cpu",
) -> Ledger:
    """Divide the window of `steps` among parts, per step. `gaps` names what stacks cannot.

    With an accelerator a blocked backward waits for that, not for other ranks.
    """
    forwards = find_forwards(trainer.spans, trainer.update_end_ns)
    spans = _labelled(trainer, steps, waits, forwards)
    edges, owner = innermost(spans.start, spans.end, steps.edges_ns)
    length = np.diff(edges).astype(np.float64)
    # By stretches: those that are no steps, because the recorder only counted in them, are taken out at the end.
    count = steps.stretches
    step = np.clip(np.searchsorted(steps.edges_ns, edges[:-1], side="right") - 1, 0, count - 1)
    rows: dict[Part, Floats] = {}

    def charge(part: Part, at: Ints, ns: Floats) -> None:
        rows[part] = rows.get(part, np.zeros(count)) + np.bincount(at, weights=ns, minlength=count)

    part_ids: dict[Part, int] = {}
    ids = np.array([part_ids.setdefault(part, len(part_ids)) for part in spans.part] or [0])
    held = owner >= 0
    part_of = np.where(held, ids[owner], -1)
    for part, number in part_ids.items():
        mine = part_of == number
        if part != _WAIT:
            charge(part, step[mine], length[mine])
    _charge_waits(waits, owner, step, length, charge)
    gap = ~held & ~steps.excluded[step]
    named = divide_gaps(trainer, forwards, stacks, edges[:-1][gap], edges[1:][gap], step[gap], count, gaps)
    for part, ns in named.ns.items():
        rows[part] = rows.get(part, np.zeros(count)) + ns
    rows = _folded(rows)
    if device == "cpu":
        _move_sharing(timeline, trainer, steps, rows)
    _move_delay(timeline, trainer, steps, rows)
    parts = tuple(sorted(rows, key=_order))
    return Ledger(parts=parts, ns=np.vstack([rows[part] for part in parts])[:, ~steps.excluded], gap_stacks=named.stacks, timed=named.timed)


_WAIT: Part = ("", "wait")


def _folded(rows: dict[Part, Floats]) -> dict[Part, Floats]:
    """A framework names thirty callbacks a step, most of which do nothing: those that hold next to no time become one part per stage."""
    small_ns = SMALL_SHARE * sum(float(ns.sum()) for ns in rows.values())
    kept: dict[Part, Floats] = {}
    for part, ns in rows.items():
        stage, name = part
        target = (stage, SMALL) if name.startswith(_FOLDABLE) and ns.sum() < small_ns else part
        kept[target] = kept.get(target, np.zeros_like(ns)) + ns
    return kept


def _order(part: Part) -> tuple[int, str]:
    stages = (*STAGES, UNATTRIBUTED)
    return stages.index(part[0]), part[1]


def _labelled(trainer: Trainer, steps: Steps, waits: WaitParts, forwards: Forwards) -> _Spans:
    starts: list[Ints] = []
    ends: list[Ints] = []
    parts: list[Part] = []

    def add(start: Ints, end: Ints, part: Part | list[Part]) -> None:
        starts.append(np.asarray(start, dtype=np.int64))
        ends.append(np.asarray(end, dtype=np.int64))
        parts.extend(part if isinstance(part, list) else [part] * len(start))

    # The order matters where two begin together: the later one here is not preferred, the shorter one is.
    add(waits.start_ns, waits.end_ns, _WAIT)
    over = trainer.waits.filter(pl.col("exhausted") | pl.col("failed"))
    add(over["start_ns"].to_numpy(), over["end_ns"].to_numpy(), ("preprocess", SHUTDOWN))
    add(trainer.starts["start_ns"].to_numpy(), trainer.starts["end_ns"].to_numpy(), ("preprocess", STARTUP))
    spans = trainer.spans
    called, closed, ended = _optimizer_calls(trainer)
    add(called, closed, ("compute", FORWARD))
    add(closed, ended, ("compute", "optimizer"))
    add(*_edges(spans.filter(pl.col("kind") == "backward")), ("compute", BACKWARD))
    saves = spans.filter(pl.col("kind") == "save")
    add(*_edges(saves), [("store", f"checkpoint by {name or 'torch.save'}") for name in saves["name"].to_list()])
    named = spans.filter(pl.col("kind") == "span")
    add(*_edges(named), _named_parts(named, trainer.facts.script))
    body = _bodies(trainer, steps, forwards)
    add(*body, ("compute", FORWARD))
    add(*_validations(trainer), ("output", VALIDATION))
    return _Spans(np.concatenate(starts), np.concatenate(ends), parts)


def _named_parts(named: pl.DataFrame, script: str | None) -> list[Part]:
    """Stage and name of each named span, with the place of the user's function that it is."""
    labels: dict[tuple[object, ...], Part] = {}
    for row in named.select("stage", "name", "file", "line").unique().iter_rows():
        stage, name, file, line = row
        where = f" ({shown(file, script)}:{line})" if file else ""
        labels[row] = (stage or "output", f"{name or 'span'}{where}")
    return [labels[row] for row in named.select("stage", "name", "file", "line").iter_rows()]


def _optimizer_calls(trainer: Trainer) -> tuple[Ints, Ints, Ints]:
    """Begin of each optimizer call, end of the closure that runs in it (the last backward inside; else the begin), and its end."""
    start, end = _edges(trainer.all_updates)
    backward = np.sort(trainer.spans.filter(pl.col("kind") == "backward")["end_ns"].to_numpy())
    last = np.append(backward, -1)[np.searchsorted(backward, end, side="right") - 1]
    return start, np.maximum(start, last), end


def _edges(frame: pl.DataFrame) -> tuple[Ints, Ints]:
    return frame["start_ns"].to_numpy(), frame["end_ns"].to_numpy()


def _bodies(trainer: Trainer, steps: Steps, forwards: Forwards) -> tuple[Ints, Ints]:
    """Per step: from the receipt of its input, or its first forward where it has no loader, to the end of its last update or backward."""
    got = trainer.waits.filter(~pl.col("exhausted"), ~pl.col("failed"))
    receipts = got["end_ns"].to_numpy()
    if steps.boundary != "request for input" or not len(receipts):
        receipts = forwards.bodies_ns
    ends = trainer.update_end_ns
    before = np.append(-1, ends[:-1])
    following = np.append(receipts, np.iinfo(np.int64).max)[np.searchsorted(receipts, before)]
    has = following < ends
    # Loops that ask for one batch ahead: the last batch of an epoch is worked on after the loader has said that there are no more.
    over = trainer.waits.filter(pl.col("exhausted") & (steps.boundary == "request for input"))["end_ns"].to_numpy()
    at = np.searchsorted(over, ends) - 1
    asked = np.append(over, -1)[at]
    ahead = ~has & (asked >= before)
    start, end = np.where(ahead, asked, following)[has | ahead], _last_work(trainer, steps)[has | ahead]
    return _interrupted(trainer, start, end) if steps.boundary == "request for input" else (start, end)


def _interrupted(trainer: Trainer, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Bodies without what runs between the backward of a micro-batch and the request for the next: that is a gap, as after an update."""
    requests, receipts = _edges(trainer.waits)
    backwards = trainer.spans.filter(pl.col("kind") == "backward")
    work = np.sort(np.concatenate((trainer.all_updates["end_ns"].to_numpy(), backwards["end_ns"].to_numpy())))
    if not len(start) or not len(work):
        return start, end
    done = np.append(work, -1)[np.searchsorted(work, requests, side="right") - 1]
    received = np.append(-1, receipts[:-1])
    body = np.maximum(np.searchsorted(start, done, side="right") - 1, 0)
    inside = (done > received) & (done > start[body]) & (requests < end[body])
    return np.sort(np.append(start, requests[inside])), np.sort(np.append(end, done[inside]))


def _last_work(trainer: Trainer, steps: Steps) -> Ints:
    """For each update, the end of what belongs to its step: second optimizers' backwards and updates before the next request for input."""
    ends = trainer.update_end_ns
    requests = trainer.waits["start_ns"].to_numpy()
    if steps.boundary != "request for input" or not len(requests):
        return ends
    backwards = trainer.spans.filter(pl.col("kind") == "backward")
    work = np.sort(np.concatenate((trainer.all_updates["end_ns"].to_numpy(), backwards["end_ns"].to_numpy())))
    following = np.append(requests, np.iinfo(np.int64).max)[np.searchsorted(requests, ends)]
    limit = np.minimum(following, np.append(trainer.update_start_ns[1:], np.iinfo(np.int64).max))
    last: Ints = work[np.maximum(np.searchsorted(work, limit, side="right") - 1, 0)]
    return np.maximum(ends, last)


def between_forwards_share(trainer: Trainer, steps: Steps, ledger: Ledger) -> float:
    """Share of the steps' time that lies in bodies with several forwards, outside of them: a roll-out's environment, for instance.

    0 where a loader or a single forward shows where the input ends, and where forwards are not recorded.
    """
    forwards = trainer.spans.filter(pl.col("kind") == "forward", pl.col("gradients").fill_null(True))
    start, end = _edges(forwards)
    stretch = np.searchsorted(steps.edges_ns, start, side="right") - 1
    inside = (stretch >= 0) & (stretch < steps.stretches) & ~steps.excluded[np.clip(stretch, 0, steps.stretches - 1)]
    if len(trainer.waits) or inside.sum() < SEVERAL_FORWARDS * steps.count:
        return 0.0
    rest = float(ledger.of("compute", FORWARD).sum()) - float((end - start)[inside].sum())
    return max(rest, 0.0) / float(ledger.ns.sum())


def _validations(trainer: Trainer) -> tuple[Ints, Ints]:
    """Stretches between two updates in which another loader than the training's is read: from its first request to its last."""
    starts = np.concatenate((trainer.other_waits["start_ns"].to_numpy(), trainer.other_starts["start_ns"].to_numpy()))
    ends = np.concatenate((trainer.other_waits["end_ns"].to_numpy(), trainer.other_starts["end_ns"].to_numpy()))
    if not len(starts):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    group = np.searchsorted(trainer.update_end_ns, starts, side="right")
    groups = np.unique(group)
    first = np.array([starts[group == g].min() for g in groups.tolist()])
    last = np.array([ends[group == g].max() for g in groups.tolist()])
    return first, last


def _charge_waits(waits: WaitParts, owner: Ints, step: Ints, length: Floats, charge: Callable[[Part, Ints, Floats], None]) -> None:
    """A wait's own time goes to its parts in proportion; inside a validation it has become that span's already."""
    mine = np.flatnonzero((owner >= 0) & (owner < len(waits.start_ns)))
    wait = owner[mine]
    whole = np.maximum((waits.end_ns - waits.start_ns)[wait], 1)
    for column, (name, stage) in enumerate(PART_STAGE.items()):
        ns = waits.parts[wait, column] / whole * length[mine]
        if ns.any():
            charge((stage, name), step[mine], ns)


def _move_sharing(timeline: Timeline, trainer: Trainer, steps: Steps, rows: dict[Part, Floats]) -> None:
    """What the training thread was blocked in backward, with other ranks about, is gradient sharing."""
    held = rows.get(("compute", BACKWARD))
    blocked = blocked_in_backward(timeline, trainer, steps.edges_ns)
    if held is None or not blocked.any():
        return
    moved = np.minimum(blocked, held)
    rows["compute", BACKWARD] = held - moved
    rows[SHARING, WAITING] = rows.get((SHARING, WAITING), np.zeros_like(moved)) + moved


def _move_delay(timeline: Timeline, trainer: Trainer, steps: Steps, rows: dict[Part, Floats]) -> None:
    """Run-queue delay of the training thread stays in the stage where it happened, as a part of its own.

    In a loop without a loader what its making of input was blocked is told from what it computed: `read`.
    """
    marks = timeline.table("cpu_marks").filter(pl.col("process") == trainer.process, pl.col("thread") == trainer.thread).sort("time_ns")
    if marks.height < 2:
        return
    time, delay = marks["time_ns"].to_numpy(), np.maximum(np.diff(marks["delay_ns"].to_numpy()).astype(np.float64), 0)
    update = np.searchsorted(trainer.update_end_ns, time, side="right")
    step = np.searchsorted(steps.edges_ns, time[1:], side="right") - 1
    usable = (step >= 0) & (step < steps.stretches)
    # What the thread waited while steps were only counted belongs to none of the others.
    left_out = np.concatenate(([0], np.cumsum(steps.excluded)))[np.clip(np.searchsorted(steps.edges_ns, time), 0, steps.stretches)]
    usable &= np.diff(left_out) == 0
    # A stretch in which an update ended held a body; any other held the wait and what came before it.
    body = usable & (np.diff(update) > 0)
    rest = usable & ~body
    count = steps.stretches
    _take(rows, np.bincount(step[body], weights=delay[body], minlength=count).astype(np.float64), ("compute",))
    outside = ("output", "store", UNATTRIBUTED) if len(trainer.waits) else ("preprocess", "output", "store", UNATTRIBUTED)
    _take(rows, np.bincount(step[rest], weights=delay[rest], minlength=count).astype(np.float64), outside)
    if not len(trainer.waits):
        blocked = np.maximum(np.diff(time) - np.diff(marks["cpu_ns"].to_numpy()) - delay, 0.0)
        _move_blocked(rows, np.bincount(step[rest], weights=blocked[rest], minlength=count).astype(np.float64), outside)


def _move_blocked(rows: dict[Part, Floats], blocked: Floats, outside: tuple[str, ...]) -> None:
    """Move what the loop's own input was blocked from preprocess to read: its share of what all was blocked outside the bodies."""
    waiting = [part for part in rows if part[1].startswith(BACKGROUND)]
    gaps = [part for part in rows if part[0] in outside and part[1] != CORE and part not in waiting]
    making = [part for part in gaps if part[0] == "preprocess"]
    if not making:
        return
    left = np.maximum(blocked - np.sum([rows[part] for part in waiting], axis=0), 0.0) if waiting else blocked
    held = np.sum([rows[part] for part in gaps], axis=0)
    share = np.divide(np.minimum(left, held), held, out=np.zeros_like(held), where=held > 0)
    for part in making:
        moved = rows[part] * share
        rows[part] = rows[part] - moved
        rows["read", UNSEEN] = rows.get(("read", UNSEEN), np.zeros_like(moved)) + moved


def _take(rows: dict[Part, Floats], delay: Floats, stages: tuple[str, ...]) -> None:
    """Move `delay` per step out of the parts of some stages, in proportion, never more than they hold."""
    mine = [part for part in rows if part[0] in stages and part[1] != CORE]
    if not mine:
        return
    held = np.sum([rows[part] for part in mine], axis=0)
    share = np.divide(np.minimum(delay, held), held, out=np.zeros_like(held), where=held > 0)
    for part in mine:
        moved = rows[part] * share
        rows[part] = rows[part] - moved
        target = (part[0], CORE)
        rows[target] = rows.get(target, np.zeros_like(moved)) + moved
