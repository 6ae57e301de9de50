"""The ledger of a recording: where the host executes synchronously the training thread's time is charged, else what is known of the device.

Each instant belongs to the innermost span open on that thread (`trainer_spans.py`, `charged_spans.py`). A wait for a batch is divided by
what its producer did (`divide_waits` in `batches/producers.py`; `PART_STAGE` has the stage of each of its parts). What no span covers is
named by stacks (`named_gaps.py`), or is unattributed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import numpy as np

from slowstep.analyses.after_update.gap_parts import GapParts
from slowstep.analyses.after_update.roll_outs import forwards_of
from slowstep.analyses.after_update.timed_gaps import TimedGaps
from slowstep.analyses.after_update.timed_lines import TimedLines
from slowstep.analyses.batches.counted_work import CountedWork
from slowstep.analyses.batches.producers import WaitParts
from slowstep.analyses.ledger.by_operation import find_by_operation
from slowstep.analyses.ledger.charged_spans import charge_spans, charge_stretches, lay_spans, named_in_bodies
from slowstep.analyses.ledger.closures import move_closures
from slowstep.analyses.ledger.counted_device import COUNTED_WAIT, CountedRows, NsByPart, bound_unseen, charge_counted, hide_waits
from slowstep.analyses.ledger.delays import blocked_in_making, move_delay, move_sharing, with_blocked
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.ledger.named_gaps import name_gaps, place_stacks, within_steps
from slowstep.analyses.ledger.probed_device import charge_probed, was_asked
from slowstep.analyses.ledger.trainer_spans import label_spans
from slowstep.analyses.python.functions import Stacks
from slowstep.analyses.steps.between_batches import BetweenBatches, find_between_batches
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.part_words import parts_in_order
from slowstep.parts import DEVICE_WORK, OPTIMIZER, UPDATES, Part, PartKind
from slowstep.timeline.coverage import CoverageLevel
from slowstep.timeline.intervals import Ints, overlap_ns
from slowstep.timeline.spine import Counted
from slowstep.timeline.timeline import Timeline

# Named callbacks, progress bars, loggers and checkpoints that each hold less than this of the window are shown as one part.
SMALL_SHARE = 0.002
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
    gil_is_held: bool = False,
    counted: CountedWork | None = None,
) -> Ledger:
    """Divide the window of `steps` among parts, per step. `gaps` names what stacks cannot.

    With an accelerator a blocked backward waits for that, not for other ranks; and bodies for it, not for the Python threads of the
    process, which use `beside_cores`, and of which it may be seen that the `gil_is_held`. What a framework `counted` of its own threads
    takes the place of what its calls seemed to do.
    """
    forwards = forwards_of(trainer, stacks)
    spans = label_spans(trainer, waits, forwards)
    laid = lay_spans(spans, trainer.collections.height, steps)
    charged = charge_stretches(trainer, laid, steps)
    named, named_ns, written_within = name_gaps(trainer, forwards, laid, steps, stacks, gaps)
    rows = _together(charge_spans(spans, waits, charged, steps.stretches), named_ns)
    move_closures(trainer, steps, stacks, rows)
    rows = _folded(rows)
    _move_delays(timeline, trainer, steps, rows, device, beside_cores, gil_is_held=gil_is_held)
    is_beside = trainer.is_asynchronous or device != "cpu"
    within, by_operation = within_steps(stacks, steps), None
    # That the device was asked need not have been in these steps.
    if is_beside and timeline.level("device") is CoverageLevel.SAMPLED and was_asked(within):
        where = place_stacks(trainer, forwards, laid, steps, within, spans.part)
        found, by_operation = charge_probed(rows, within, where, _device_work(trainer)), find_by_operation(within, where)
    else:
        found = _unprobed(trainer, steps, rows, counted, is_beside=is_beside)
    if trainer.is_asynchronous and (blocked := blocked_in_making(timeline, trainer, steps, rows)):
        found = found.changed(partial(with_blocked, share=blocked))
    in_bodies_ns = named_in_bodies(spans, charged, steps.stretches)
    ledger = _stacked(found, steps, named, written_within, in_bodies_ns, find_between_batches(trainer, spans.bodies, steps))
    ledger = replace(ledger, by_operation=by_operation)
    return ledger if counted is None or is_beside or counted.hides_waits else _with_counted_waits(ledger, trainer, steps, counted)


def _device_work(trainer: Trainer) -> Part:
    """All that the device does: where the framework makes whole updates, these; else what hooks of the host cannot divide."""
    return DEVICE_WORK if trainer.has_optimizers else UPDATES


def _unprobed(trainer: Trainer, steps: Steps, rows: NsByPart, counted: CountedWork | None, *, is_beside: bool) -> CountedRows:
    """The host's `rows`, where nobody asked the device: by what the framework counted of it, or bounded where it works beside the host."""
    if is_beside:
        return bound_unseen(rows, _device_work(trainer)) if counted is None else charge_counted(counted, steps, rows)
    return hide_waits(rows) if counted is not None and counted.hides_waits else CountedRows(rows)


def _together(rows: NsByPart, more: NsByPart) -> NsByPart:
    """Both, the time of a part that both have added."""
    return {**rows, **{part: rows[part] + ns if part in rows else ns for part, ns in more.items()}}


def _move_delays(
    timeline: Timeline, trainer: Trainer, steps: Steps, rows: NsByPart, device: str, beside_cores: float, *, gil_is_held: bool
) -> None:
    """Give to other ranks, and to who used the cores meanwhile, what the training thread waited for them."""
    if device == "cpu":
        move_sharing(timeline, trainer, steps, rows)
    is_alone = device == "cpu" and (trainer.facts.world_size or 1) == 1
    move_delay(timeline, trainer, steps, rows, beside_cores=beside_cores if is_alone else 0.0, gil_is_held=is_alone and gil_is_held)


def _with_counted_waits(ledger: Ledger, trainer: Trainer, steps: Steps, counted: CountedWork) -> Ledger:
    """With the waits for input that a synchronous framework counts inside its own calls."""
    begins, ends = (side[~steps.excluded] for side in (steps.edges_ns[:-1], steps.edges_ns[1:]))
    return move_counted(ledger, begins, ends, counted.waits, OPTIMIZER if trainer.has_optimizers else UPDATES, COUNTED_WAIT)


def move_counted(ledger: Ledger, begins: Ints, ends: Ints, counted: Iterable[Counted], out_of: Part, into: Part) -> Ledger:
    """The ledger of steps with what was counted in a part as a part of its own.

    The sum of a counter's steps is exact, and never more than the part holds there; how it is divided among them is an estimate, by what
    each of them holds. Raises ValueError where parts are known within bounds: a counter does not tell what of it lies beside a busy device.
    """
    if ledger.high is not None:
        raise ValueError("what was counted beside a device that is seen in part has no place")
    held = ledger.of_parts(out_of)
    moved = np.zeros_like(held)
    for one in counted:
        inside = overlap_ns(begins, ends, np.full_like(begins, one.start_ns), np.full_like(ends, one.end_ns)) / (ends - begins)
        there = np.maximum(held * inside - moved, 0.0)
        whole = float(there.sum())
        moved += there * min(one.total_ns / whole, 1.0) if whole > 0 else 0.0
    rows = {part: ledger.of_parts(part) for part in ledger.parts}
    rows |= {out_of: held - moved, into: ledger.of_parts(into) + moved}
    parts = parts_in_order(rows)
    return replace(ledger, parts=tuple(parts), ns=np.vstack([rows[part] for part in parts]))


def _stacked(
    found: CountedRows,
    steps: Steps,
    named: GapParts,
    written_within: dict[Part, float],
    in_bodies_ns: Floats,
    between: BetweenBatches | None,
) -> Ledger:
    """The rows of all stretches as a ledger of the steps."""
    parts = tuple(parts_in_order(found.ns))

    def of_steps(rows: NsByPart) -> Floats:
        return np.vstack([rows[part] for part in parts])[:, ~steps.excluded]

    return Ledger(
        parts=parts,
        ns=of_steps(found.ns),
        low=None if found.low is None else of_steps(found.low),
        high=None if found.high is None else of_steps(found.high),
        gap_stacks=named.stacks,
        timed=named.timed,
        written_within=written_within,
        in_bodies_ns=in_bodies_ns[~steps.excluded],
        between=between,
    )


def _folded(rows: NsByPart) -> NsByPart:
    """A framework names thirty callbacks a step, most of which do nothing: those that hold next to no time become one part per stage."""
    small_ns = SMALL_SHARE * sum(float(ns.sum()) for ns in rows.values())
    kept: NsByPart = {}
    for part, ns in rows.items():
        target = Part(part.stage, PartKind.SMALL_CALLBACKS) if part.kind in _FOLDABLE and ns.sum() < small_ns else part
        kept[target] = kept.get(target, np.zeros_like(ns)) + ns
    return kept
