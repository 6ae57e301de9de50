"""What an optimizer's own time on a processor can be.

Many passes where one would do, arithmetic on numbers that became nearly zero, or a loop of the script's over tensors: the operations of one
tensor can be done for a stack of all that have its shape, or on lists of tensors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slowstep.analyses.compute.own_update import OwnUpdate
from slowstep.analyses.ledger.closures import has_closures
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.hot_loop import HotLoop
from slowstep.calibration import updating
from slowstep.diagnosis.evidence.compute.larger_batch import usual_step_ns
from slowstep.diagnosis.evidence.growing import growing
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE, concurrent_producers_ns, delay_share, with_core_delay
from slowstep.diagnosis.gain import Case, Counterfactual
from slowstep.diagnosis.lever_specs import FUSED
from slowstep.findings import Fix
from slowstep.frameworks._remedies import Remedy
from slowstep.frameworks._words import Words
from slowstep.parts import OPTIMIZER
from slowstep.units import format_share

# Of an optimizer's time what is left with fused=True.
FUSED_LEFT, (FUSED_LEFT_OPTIMISTIC, FUSED_LEFT_PESSIMISTIC) = updating.FUSED_LEFT.value, updating.FUSED_LEFT.bounds
# Of the fixed cost: from half of it on the optimizer is the largest part, and making it faster comes before anything else.
LARGEST = 0.5
# Of SGD's time 0.5 to 0.8 was left with momentum, and nothing was gained without: not advised.
GAINS_BY_FUSING = ("Adam", "AdamW", "Adagrad")
# What was measured of loops over tensors: those of up to so many elements, and so many of them.
MOST_ELEMENTS = updating.AT_ONCE_ELEMENTS.value
FEWEST_TENSORS = 20
# Updates that took a loop up to so much for a tensor, and so much and more. Between them nothing was measured.
SHORT_NS, LONG_NS = updating.AT_ONCE_TENSOR.value, updating.LONG_AT_ONCE_TENSOR.value
# Of the loop's time, by lines that dispatch a few operations. Others hold an operation's own work, which is the same for a stack.
FEWEST_SHORT = 0.9
MOST_OF_UPDATE = 0.5


def unfused(m: Measurements) -> str | None:
    """The type of the training's optimizer where a fused one would do on this processor; None where not, or where that is not known.

    Of several optimizers, whose time is one part of the ledger, all have to be such.
    """
    if m.compute.device != "cpu" or has_closures(m.trainer):
        return None
    notes = {note.get("id"): note for note in m.trainer.facts.notes["optimizers"]}
    own, *others = (_gains_by_fusing(notes.get(ident)) for ident in (m.trainer.optimizer, *m.trainer.outer_updates["optimizer"].unique()))
    return own if all(others) else None


def _gains_by_fusing(note: Mapping[str, Any] | None) -> str | None:
    kind = note.get("type") if note is not None and note.get("fused") is False else None
    return kind if kind in GAINS_BY_FUSING else None


def optimizer_ns(m: Measurements) -> float:
    """What the optimizer takes of the usual step, ns."""
    return float(np.median(m.ledger.of_parts(OPTIMIZER)))


def takes_most_of_fixed(m: Measurements) -> bool:
    """Whether the optimizer is the largest part of what a step takes however few samples it holds; bounds are taken at what is usual.

    Where nothing bounds that cost from above all of the step may be of it.
    """
    cost = m.compute.fixed_cost
    step = usual_step_ns(m) if cost.high_ns is None else 0.0
    return optimizer_ns(m) >= LARGEST * max(cost.likely_ns or 0.0, cost.value_ns or 0.0, cost.low_ns, step)


def surely_takes_most_of_fixed(m: Measurements) -> bool:
    """Whether it is so whatever that cost is between its bounds."""
    high = m.compute.fixed_cost.high_ns
    return optimizer_ns(m) >= LARGEST * (usual_step_ns(m) if high is None else high)


def fuse(words: Words, kind: str, share: float) -> Fix:
    """The fix of an unfused optimizer that takes the share of the step."""
    how = fused(words, kind)
    return Fix(text=f"{how}: all parameters in one pass; the optimizer takes {format_share(share)} of the step", lever=FUSED)


def fused(words: Words, kind: str) -> str:
    """How a script asks for a fused optimizer: of a trainer, where that makes it by itself."""
    own = words.write({Remedy.FUSED: True}, kind=kind) or words.advise(Remedy.FUSED)
    by_trainer = words.write({Remedy.FUSED_ADAMW: True}) if kind == "AdamW" else ""
    return f"{by_trainer}, or {own} where the script makes it" if by_trainer else own


def fused_counterfactual(m: Measurements, kind: str) -> Counterfactual:
    """The optimizer's time with one pass over its parameters."""
    taken = with_core_delay(m, OPTIMIZER)

    def case(left: float, factor: float = 1.0) -> Case:
        removed = (1 - left) * taken
        beside = factor * concurrent_producers_ns(m, spared_cpu_ns=float(removed.mean()))
        return Case(removed_ns=removed, concurrent_ns=beside, delay_share=delay_share(m, OPTIMIZER))

    return Counterfactual(
        assumes=f"{kind} with fused=True took {format_share(FUSED_LEFT)} of its time",
        expected=case(FUSED_LEFT),
        pessimistic=case(FUSED_LEFT_PESSIMISTIC, PESSIMISTIC_BESIDE),
        optimistic=case(FUSED_LEFT_OPTIMISTIC),
    )


def flush_denormals(m: Measurements) -> Fix | None:
    """What to try where the optimizer alone takes ever longer on a processor; None where it does not.

    Where a model has learned what it can, averages of its gradients fall below what floats hold in full (1.2e-38), and arithmetic on such
    numbers is done by microcode. Measured: 21 % of Adam's averages made steps of 5.2 and 5.8 ms 8.7 and 7.1 ms long.
    """
    growth = growing(m)
    if growth is None or growth.part != OPTIMIZER or m.compute.device != "cpu":
        return None
    return Fix(
        text=f"{m.training.words.advise(Remedy.FLUSH_DENORMALS)}: averages of gradients that became nearly zero (denormal) may be why the "
        "optimizer takes longer and longer on a processor",
        changes_numerics=True,
    )


@dataclass(frozen=True, slots=True)
class LeftAtOnce:
    """Of a loop's time, 0 to 1: as expected, at least and at most."""

    expected: float
    low: float
    high: float


def at_once(m: Measurements, loop: HotLoop, assumes: str) -> Counterfactual | None:
    """The loop of an update written for all tensors at once; None where nothing was measured that is like it."""
    own = m.compute.own_update
    is_told = own is not None and loop.short_share >= FEWEST_SHORT and loop.share > 1 - _part_of_updates(m, own)
    left = left_at_once(own, _each_ns(m, loop, own)) if own is not None and is_told else None
    if left is None:
        return None
    taken = with_core_delay(m, OPTIMIZER)
    removed = taken * loop.share * loop.short_share * (1 - left.expected)
    beside = concurrent_producers_ns(m, spared_cpu_ns=float(removed.mean()))
    expected = Case(removed_ns=removed, concurrent_ns=beside, delay_share=delay_share(m, OPTIMIZER))
    least = taken * loop.low * loop.short_share * (1 - left.high)
    return Counterfactual(
        assumes=assumes,
        expected=expected,
        pessimistic=replace(expected, removed_ns=least, concurrent_ns=PESSIMISTIC_BESIDE * beside),
        optimistic=replace(expected, removed_ns=taken * loop.high * (1 - left.low)),
    )


def tells_update(m: Measurements) -> bool:
    """Whether it is known of most of the update what it would take for all tensors at once."""
    loop = m.compute.work.loop
    return loop is not None and loop.in_update and loop.share >= MOST_OF_UPDATE and at_once(m, loop, "") is not None


def left_at_once(own: OwnUpdate, each_ns: float) -> LeftAtOnce | None:
    """What is left of a loop that takes so long for each tensor. Tensors of another shape are another stack, with all of its operations."""
    if own.elements is None or own.elements > MOST_ELEMENTS or not own.shapes or (own.tensors or 0) < FEWEST_TENSORS:
        return None
    more = (own.shapes - 1) / (own.tensors or 1)
    left = LeftAtOnce(*(min(share + more, 1.0) for share in _left(each_ns)))
    return left if left.expected < 1 else None


def _left(each_ns: float) -> tuple[float, float, float]:
    """As expected, at least and at most, of a loop that takes so long for each tensor of one shape."""
    short, long = updating.AT_ONCE, updating.LONG_AT_ONCE
    if SHORT_NS < each_ns < LONG_NS:
        return math.sqrt(short.value * long.value), long.bounds[0], short.bounds[1]
    found = short if each_ns <= SHORT_NS else long
    return found.value, *found.bounds


def _part_of_updates(m: Measurements, own: OwnUpdate) -> float:
    """What the method takes of all updates, 0 to 1: a loop that takes more than the rest is not another optimizer's alone."""
    updates = float(m.ledger.of_parts(OPTIMIZER).sum()) / max(float(m.step_ns.sum()), 1.0)
    return min(own.share / updates, 1.0) if updates > 0 else 0.0


def _each_ns(m: Measurements, loop: HotLoop, own: OwnUpdate) -> float:
    """Without what it waits for a core."""
    return float(m.ledger.of_parts(OPTIMIZER).mean()) * loop.share / max(own.tensors or 1, 1)
