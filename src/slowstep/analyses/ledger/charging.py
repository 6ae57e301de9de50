"""Builds the ledger: charges every instant of the window to one part of one stage (no accelerator: the training thread's time).

Each instant belongs to the innermost span open on the training thread. What no span covers is named by stacks, or is unattributed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slowstep.analyses.after_update.gap_parts import GapParts, divide_gaps
from slowstep.analyses.after_update.roll_outs import forwards_of
from slowstep.analyses.after_update.timed_gaps import TimedGaps
from slowstep.analyses.after_update.timed_lines import TimedLines
from slowstep.analyses.batches.counted import CountedWork
from slowstep.analyses.batches.producers import PART_STAGE, WaitParts
from slowstep.analyses.ledger.closures import move_closures
from slowstep.analyses.ledger.counted_device import move_counted
from slowstep.analyses.ledger.delays import move_delay, move_sharing
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.ledger.trainer_spans import Spans, label_spans
from slowstep.analyses.python.functions import Stacks
from slowstep.analyses.steps.between_batches import find_between_batches
from slowstep.analyses.steps.forwards import Forwards
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.part_words import parts_in_order
from slowstep.parts import VALIDATION, Part, PartKind
from slowstep.timeline.intervals import Ints, containing, innermost, laid_over, pieces, union
from slowstep.timeline.timeline import Timeline

# Named callbacks, progress bars, loggers and checkpoints that each hold less than this of the window are shown as one part.
SMALL_SHARE = 0.002
# Start, end and step of each.
Gaps = tuple[Ints, Ints, Ints]
# Adds ns to a part, each to the step that stands beside it.
Charge = Callable[[Part, Ints, Floats], None]
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
    length = np.diff(edges).astype(np.float64)
    # By stretches: those that are no steps, because the recorder only counted in them, are taken out at the end.
    count = steps.stretches
    step = np.clip(np.searchsorted(steps.edges_ns, edges[:-1], side="right") - 1, 0, count - 1)
    rows: dict[Part, Floats] = {}

    def charge(part: Part, at: Ints, ns: Floats) -> None:
        rows[part] = rows.get(part, np.zeros(count)) + np.bincount(at, weights=ns, minlength=count)

    _charge_spans(spans, owner, step, length, charge)
    _charge_waits(waits, owner, step, length, charge)
    named, named_ns = _name_gaps(trainer, forwards, without, (edges, owner), steps, stacks, gaps)
    for part, ns in named_ns.items():
        rows[part] = rows.get(part, np.zeros(count)) + ns
    move_closures(trainer, steps, stacks, rows)
    rows = _folded(rows)
    if device == "cpu":
        move_sharing(timeline, trainer, steps, rows)
    is_alone = device == "cpu" and (trainer.facts.world_size or 1) == 1
    move_delay(timeline, trainer, steps, rows, beside_cores=beside_cores if is_alone else 0.0)
    if counted is not None:
        move_counted(counted, steps, rows)
    parts = tuple(parts_in_order(rows))
    return Ledger(
        parts=parts,
        ns=np.vstack([rows[part] for part in parts])[:, ~steps.excluded],
        gap_stacks=named.stacks,
        timed=named.timed,
        in_bodies_ns=_named_in_bodies(spans, edges, owner, step, count)[~steps.excluded],
        between=find_between_batches(trainer, spans.bodies, steps),
    )


def _named_in_bodies(spans: Spans, edges: Ints, owner: Ints, step: Ints, count: int) -> Floats:
    """Per step what bodies hold of spans that somebody named, which are no part of what the ledger calls forward and the rest."""
    body = containing(*union(*spans.bodies), edges[:-1]) >= 0
    mine = body & (owner >= 0) & spans.named[owner]
    return np.bincount(step[mine], weights=np.diff(edges)[mine].astype(np.float64), minlength=count).astype(np.float64)


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


def _charge_spans(spans: Spans, owner: Ints, step: Ints, length: Floats, charge: Charge) -> None:
    part_ids = {part: number for number, part in enumerate(dict.fromkeys(spans.part))}
    ids = np.array(list(map(part_ids.__getitem__, spans.part)) or [0])
    part_of = np.where(owner >= 0, ids[owner], -1)
    for part, number in part_ids.items():
        if part is not None:
            mine = part_of == number
            charge(part, step[mine], length[mine])


def _charge_waits(waits: WaitParts, owner: Ints, step: Ints, length: Floats, charge: Charge) -> None:
    """A wait's own time goes to its parts in proportion; inside a validation it has become that span's already."""
    mine = np.flatnonzero((owner >= 0) & (owner < len(waits.start_ns)))
    wait = owner[mine]
    whole = np.maximum(waits.parts.sum(axis=1)[wait], 1)
    for column, (kind, stage) in enumerate(PART_STAGE.items()):
        ns = waits.parts[wait, column] / whole * length[mine]
        if ns.any():
            charge(Part(stage, kind), step[mine], ns)


def _folded(rows: dict[Part, Floats]) -> dict[Part, Floats]:
    """A framework names thirty callbacks a step, most of which do nothing: those that hold next to no time become one part per stage."""
    small_ns = SMALL_SHARE * sum(float(ns.sum()) for ns in rows.values())
    kept: dict[Part, Floats] = {}
    for part, ns in rows.items():
        target = Part(part.stage, PartKind.SMALL_CALLBACKS) if part.kind in _FOLDABLE and ns.sum() < small_ns else part
        kept[target] = kept.get(target, np.zeros_like(ns)) + ns
    return kept
