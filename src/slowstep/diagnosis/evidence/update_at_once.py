"""What is left of a loop over an optimizer's tensors once it is written for all of them at once, as far as that was measured.

The operations of one tensor are done for a stack of all that have its shape, or on lists of tensors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from slowstep.analyses.compute.own_update import OwnUpdate
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.hot_loop import HotLoop
from slowstep.calibration import updating
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE, concurrent_producers_ns, delay_share, with_core_delay
from slowstep.diagnosis.gain import Case, Counterfactual
from slowstep.parts import OPTIMIZER

# What was measured: tensors of up to so many elements, and so many of them.
MOST_ELEMENTS = 1024
FEWEST_TENSORS = 20
# Updates that took a loop up to 21 us a tensor, and 99 us and more: in the middle between both.
LONG_NS = 45_000.0
# Of the loop's time, by lines that dispatch a few operations. Others hold an operation's own work, which is the same for a stack.
FEWEST_SHORT = 0.9
MOST_OF_UPDATE = 0.5


@dataclass(frozen=True, slots=True)
class LeftAtOnce:
    """Of a loop's time, 0 to 1: as expected, at least and at most."""

    expected: float
    low: float
    high: float


def at_once(m: Measurements, loop: HotLoop, assumes: str) -> Counterfactual | None:
    """The loop of an update written for all tensors at once; None where nothing was measured that is like it."""
    own = m.compute.own_update
    left = None if own is None or loop.short_share < FEWEST_SHORT else left_at_once(own, _each_ns(m, loop, own))
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
    found = updating.LONG_AT_ONCE if each_ns >= LONG_NS else updating.AT_ONCE
    low, high = found.bounds
    more = (own.shapes - 1) / (own.tensors or 1)
    left = LeftAtOnce(*(min(share + more, 1.0) for share in (found.value, low, high)))
    return left if left.expected < 1 else None


def _each_ns(m: Measurements, loop: HotLoop, own: OwnUpdate) -> float:
    """Without what it waits for a core."""
    return float(m.ledger.of_parts(OPTIMIZER).mean()) * loop.share / max(own.tensors or 1, 1)
