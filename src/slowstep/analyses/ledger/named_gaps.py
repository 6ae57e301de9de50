"""What ran on the training thread where no span is open, by stacks and by gaps that were timed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slowstep.analyses.after_update.gap_parts import GapParts, divide_gaps
from slowstep.analyses.after_update.gaps import parts_of_stacks
from slowstep.analyses.after_update.timed_gaps import TimedGaps
from slowstep.analyses.after_update.timed_lines import TimedLines
from slowstep.analyses.ledger.charged_spans import LaidSpans
from slowstep.analyses.ledger.saving_functions import with_saving_functions
from slowstep.analyses.python.functions import Stacks
from slowstep.analyses.steps.forwards import Forwards
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.parts import NOT_ATTRIBUTED, VALIDATION, Part
from slowstep.timeline.intervals import Ints, containing, pieces

# Start, end and step of each.
GapEdges = tuple[Ints, Ints, Ints]


def name_gaps(
    trainer: Trainer,
    forwards: Forwards,
    laid: LaidSpans,
    steps: Steps,
    stacks: Stacks,
    gaps: TimedGaps | TimedLines | None,
) -> tuple[GapParts, dict[Part, Floats], dict[Part, float]]:
    """What ran where no span is open, as stacks and timed gaps tell; its ns per step, without the garbage collection meanwhile; and what
    share of the writing of checkpoints is within each function that is for it.

    A gap is divided as a whole, by the division without collections: what ran before one in it and what ran after it are one.
    """
    (whole, _), (left, validating) = (
        _apart_from_validations(_open_gaps(*each, steps), forwards) for each in (laid.without_collections, laid.owned)
    )
    divided = divide_gaps(trainer, forwards, stacks, *whole, steps.stretches, gaps)
    named, within = with_saving_functions(divided, trainer, steps, stacks)
    before, after, exact = (_ns_per_step(each, steps) for each in (whole, left, validating))
    scale = np.divide(after, before, out=np.ones(steps.stretches), where=before > 0)
    ns = {part: each * scale for part, each in named.ns.items()}
    if exact.any():
        ns[VALIDATION] = ns.get(VALIDATION, 0) + exact
    return named, ns, within


def within_steps(stacks: Stacks, steps: Steps) -> Stacks:
    """The stacks that were taken in the steps of the window."""
    return stacks.only(steps.step_at(stacks.time_ns)[1])


def place_stacks(
    trainer: Trainer, forwards: Forwards, laid: LaidSpans, steps: Steps, stacks: Stacks, part_of_span: Sequence[Part | None]
) -> list[Part | None]:
    """What each stack was taken in: the part of the span that is the innermost then, or what it tells itself where none is open."""
    edges, owner = laid.owned
    code = np.append(owner, -1)[containing(edges[:-1], edges[1:], stacks.time_ns)]
    found: list[Part | None] = [NOT_ATTRIBUTED if each < 0 else part_of_span[each] for each in code.tolist()]
    taken, parts = parts_of_stacks(trainer, forwards, stacks, *_open_gaps(*laid.owned, steps)[:2])
    for index, part in zip(taken.tolist(), parts, strict=True):
        found[index] = part
    return found


def _apart_from_validations(gaps: GapEdges, forwards: Forwards) -> tuple[GapEdges, GapEdges]:
    """The gaps without what lies between the first and the last of the repeated calls of a model in evaluation mode, and that.

    It is known to the instant and needs no stacks: one in twenty short gaps that is a validation would be most of the stacks of them all.
    """
    start, end, step = gaps
    begun, over = (each[forwards.apart_evaluating] for each in (forwards.apart_start_ns, forwards.apart_end_ns))
    gap, first, last = pieces(start, end, np.concatenate((begun, over)))
    validates = containing(begun, over, first) >= 0
    rest, validating = ((first[mine], last[mine], step[gap[mine]]) for mine in (~validates, validates))
    return rest, validating


def _open_gaps(edges: Ints, owner: Ints, steps: Steps) -> GapEdges:
    """Start, end and step of the stretches in which no span is open."""
    step = np.clip(np.searchsorted(steps.edges_ns, edges[:-1], side="right") - 1, 0, steps.stretches - 1)
    gap = (owner < 0) & ~steps.excluded[step]
    return edges[:-1][gap], edges[1:][gap], step[gap]


def _ns_per_step(gaps: GapEdges, steps: Steps) -> Floats:
    start, end, step = gaps
    return np.bincount(step, weights=(end - start).astype(np.float64), minlength=steps.stretches).astype(np.float64)
