"""The ledger of a recording: without an accelerator the host executes synchronously, and the training thread's time is charged.

Each instant belongs to the innermost span open on that thread (`trainer_spans.py`). A wait for a batch is divided by what its producer did
(`divide_waits` in `batches/producers.py`; `PART_STAGE` has the stage of each of its parts). What no span covers is named by stacks, or is
unattributed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slowstep.analyses.after_update.gap_parts import GapParts, divide_gaps
from slowstep.analyses.after_update.roll_outs import forwards_of
from slowstep.analyses.after_update.timed_gaps import TimedGaps
from slowstep.analyses.after_update.timed_lines import TimedLines
from slowstep.analyses.batches.counted_work import CountedWork
from slowstep.analyses.batches.producers import PART_STAGE, WaitParts
from slowstep.analyses.ledger.charge import Charged, charge
from slowstep.analyses.ledger.closures import move_closures
from slowstep.analyses.ledger.counted import move_counted
from slowstep.analyses.ledger.counted_device import COUNTED_WAIT, CountedRows, Rows, charge_counted
from slowstep.analyses.ledger.delays import move_delay, move_sharing
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.ledger.trainer_spans import Spans, label_spans
from slowstep.analyses.python.functions import Stacks
from slowstep.analyses.steps.between_batches import find_between_batches
from slowstep.analyses.steps.forwards import Forwards
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.part_words import parts_in_order
from slowstep.parts import OPTIMIZER, UPDATES, VALIDATION, Part, PartKind
from slowstep.timeline.intervals import Ints, containing, innermost, laid_over, pieces, union
from slowstep.timeline.spine import HostLane, KnownLanes, Labelled
from slowstep.timeline.timeline import Timeline

# Named callbacks, progress bars, loggers and checkpoints that each hold less than this of the window are shown as one part.
SMALL_SHARE = 0.002
# Start, end and step of each.
Gaps = tuple[Ints, Ints, Ints]
# Adds ns to a part, each to the step that stands beside it.
Add = Callable[[Part, Ints, Floats], None]
_FOLDABLE = (PartKind.CALLBACK, PartKind.PROGRESS_BAR, PartKind.LOGGING, PartKind.METRICS, PartKind.CHECKPOINT)


def build_ledger(
    timeline: Timeline,
    trainer: Trainer,
    steps: Steps,
    waits: WaitParts,
    stacks: Stacks,
    gaps: TimedGaps | TimedLines | None = None,
    *,
    device: str = "cpu",
    beside_cores: float = 0.0,
    counted: CountedWork | None = None,
) -> Ledger:
    """Divide the window of `steps` among parts, per step. `gaps` names what stacks cannot.

    With an accelerator a blocked backward waits for that, not for other ranks; and bodies for it, not for the Python threads of the
    process, which use `beside_cores`. What a framework `counted` of its own threads takes the place of what its calls seemed to do.
    """
    forwards = forwards_of(trainer, stacks)
    spans = label_spans(trainer, waits, forwards)
    # Nothing lies in a collection, and those of one thread come one after the other.
    others = len(spans.start) - trainer.collections.height
    without = innermost(spans.start[:others], spans.end[:others], steps.edges_ns)
    edges, owner = laid_over(*without, spans.start[others:], spans.end[others:], others)
    # By stretches: those that are no steps, because the recorder only counted in them, are taken out at the end.
    count = steps.stretches
    lane = HostLane(thread=trainer.thread, named=Labelled(edges[:-1], edges[1:], owner))
    charged, _ = charge((steps.edges_ns[:-1], steps.edges_ns[1:]), KnownLanes(training=lane.thread, lanes={lane.thread: lane}))
    rows: dict[Part, Floats] = {}

    def add(part: Part, at: Ints, ns: Floats) -> None:
        rows[part] = rows.get(part, np.zeros(count)) + np.bincount(at, weights=ns, minlength=count)

    _charge_spans(spans, charged, add)
    _charge_waits(waits, charged, add)
    named, named_ns = _name_gaps(trainer, forwards, without, (edges, owner), steps, stacks, gaps)
    for part, ns in named_ns.items():
        rows[part] = rows.get(part, np.zeros(count)) + ns
    move_closures(trainer, steps, stacks, rows)
    rows = _folded(rows)
    if device == "cpu":
        move_sharing(timeline, trainer, steps, rows)
    is_alone = device == "cpu" and (trainer.facts.world_size or 1) == 1
    move_delay(timeline, trainer, steps, rows, beside_cores=beside_cores if is_alone else 0.0)
    is_beside = counted is not None and counted.is_asynchronous
    found = charge_counted(counted, steps, rows) if counted is not None and is_beside else CountedRows(rows)
    parts = tuple(parts_in_order(found.ns))
    ledger = Ledger(
        parts=parts,
        ns=_stacked(found.ns, parts, steps),
        low=None if found.low is None else _stacked(found.low, parts, steps),
        high=None if found.high is None else _stacked(found.high, parts, steps),
        gap_stacks=named.stacks,
        timed=named.timed,
        in_bodies_ns=_named_in_bodies(spans, charged, count)[~steps.excluded],
        between=find_between_batches(trainer, spans.bodies, steps),
    )
    if counted is None or is_beside:
        return ledger
    begins, ends = (side[~steps.excluded] for side in (steps.edges_ns[:-1], steps.edges_ns[1:]))
    return move_counted(ledger, begins, ends, counted.waits, OPTIMIZER if trainer.has_optimizers else UPDATES, COUNTED_WAIT)


def _stacked(rows: Rows, parts: tuple[Part, ...], steps: Steps) -> Floats:
    """Shape (parts, steps)."""
    return np.vstack([rows[part] for part in parts])[:, ~steps.excluded]


def _named_in_bodies(spans: Spans, charged: Charged, count: int) -> Floats:
    """Per step what bodies hold of spans that somebody named, which are no part of what the ledger calls forward and the rest."""
    body = containing(*union(*spans.bodies), charged.start_ns) >= 0
    mine = body & (charged.code >= 0) & spans.named[charged.code]
    return np.bincount(charged.step[mine], weights=charged.length_ns[mine], minlength=count).astype(np.float64)


def _name_gaps(
    trainer: Trainer,
    forwards: Forwards,
    without: tuple[Ints, Ints],
    owned: tuple[Ints, Ints],
    steps: Steps,
    stacks: Stacks,
    gaps: TimedGaps | TimedLines | None,
) -> tuple[GapParts, dict[Part, Floats]]:
    """What ran where no span is open, as stacks and timed gaps tell, and its ns per step, without the garbage collection meanwhile.

    A gap is divided as a whole, by the division `without` collections: what ran before one in it and what ran after it are one.
    """
    (whole, _), (left, validating) = (_apart_from_validations(_open_gaps(*each, steps), forwards) for each in (without, owned))
    named = divide_gaps(trainer, forwards, stacks, *whole, steps.stretches, gaps)
    before, after, exact = (_ns_per_step(each, steps) for each in (whole, left, validating))
    scale = np.divide(after, before, out=np.ones(steps.stretches), where=before > 0)
    ns = {part: each * scale for part, each in named.ns.items()}
    if exact.any():
        ns[VALIDATION] = ns.get(VALIDATION, 0) + exact
    return named, ns


def _apart_from_validations(gaps: Gaps, forwards: Forwards) -> tuple[Gaps, Gaps]:
    """The gaps without what lies between the first and the last of the repeated calls of a model in evaluation mode, and that.

    It is known to the instant and needs no stacks: one in twenty short gaps that is a validation would be most of the stacks of them all.
    """
    start, end, step = gaps
    begun, over = (each[forwards.apart_evaluating] for each in (forwards.apart_start_ns, forwards.apart_end_ns))
    gap, first, last = pieces(start, end, np.concatenate((begun, over)))
    validates = containing(begun, over, first) >= 0
    rest, validating = ((first[mine], last[mine], step[gap[mine]]) for mine in (~validates, validates))
    return rest, validating


def _open_gaps(edges: Ints, owner: Ints, steps: Steps) -> Gaps:
    """Start, end and step of the stretches in which no span is open."""
    step = np.clip(np.searchsorted(steps.edges_ns, edges[:-1], side="right") - 1, 0, steps.stretches - 1)
    gap = (owner < 0) & ~steps.excluded[step]
    return edges[:-1][gap], edges[1:][gap], step[gap]


def _ns_per_step(gaps: Gaps, steps: Steps) -> Floats:
    start, end, step = gaps
    return np.bincount(step, weights=(end - start).astype(np.float64), minlength=steps.stretches).astype(np.float64)


def _charge_spans(spans: Spans, charged: Charged, add: Add) -> None:
    part_ids = {part: number for number, part in enumerate(dict.fromkeys(spans.part))}
    ids = np.array(list(map(part_ids.__getitem__, spans.part)) or [0])
    part_of = np.where(charged.code >= 0, ids[charged.code], -1)
    for part, number in part_ids.items():
        if part is not None:
            mine = part_of == number
            add(part, charged.step[mine], charged.length_ns[mine])


def _charge_waits(waits: WaitParts, charged: Charged, add: Add) -> None:
    """A wait's own time goes to its parts in proportion; inside a validation it has become that span's already."""
    mine = np.flatnonzero((charged.code >= 0) & (charged.code < len(waits.start_ns)))
    wait = charged.code[mine]
    whole = np.maximum(waits.parts.sum(axis=1)[wait], 1)
    for column, (kind, stage) in enumerate(PART_STAGE.items()):
        ns = waits.parts[wait, column] / whole * charged.length_ns[mine]
        if ns.any():
            add(Part(stage, kind), charged.step[mine], ns)


def _folded(rows: dict[Part, Floats]) -> dict[Part, Floats]:
    """A framework names thirty callbacks a step, most of which do nothing: those that hold next to no time become one part per stage."""
    small_ns = SMALL_SHARE * sum(float(ns.sum()) for ns in rows.values())
    kept: dict[Part, Floats] = {}
    for part, ns in rows.items():
        target = Part(part.stage, PartKind.SMALL_CALLBACKS) if part.kind in _FOLDABLE and ns.sum() < small_ns else part
        kept[target] = kept.get(target, np.zeros_like(ns)) + ns
    return kept
