"""What a step takes where worker processes make the batches that now the training's own process makes."""

from __future__ import annotations

from slowstep.analyses.delivery import RECEIVE_NS
from slowstep.diagnosis.gain import Case, Counterfactual
from slowstep.diagnosis.input_side import RECEIVE_HIGH_NS, RECEIVE_LOW_NS, SIDE_BY_SIDE, Side, beside_ns
from slowstep.diagnosis.spread import EXACT, Spread
from slowstep.diagnosis.trainer_side import WORSE_BESIDE
from slowstep.units import format_count


def made_by_workers(side: Side, workers: int, spread: Spread = EXACT) -> Counterfactual:
    """`spread`: how far off what is removed may be, where stacks tell it."""

    def case(receive_ns: float, slowed: float = 0.0, part: float = 1.0, factor: float = 1.0) -> Case:
        removed = part * side.removable_ns - receive_ns - slowed * side.rest_ns
        # Receiving is work that was not there before.
        return Case(removed_ns=removed, beside_ns=factor * beside_ns(side, workers, spared_cpu_ns=-receive_ns))

    words = f"batches are made by {format_count(workers, 'worker')} beside the training; receiving one takes 1 ms"
    worse, better = case(RECEIVE_HIGH_NS, SIDE_BY_SIDE, spread.low, WORSE_BESIDE), case(RECEIVE_LOW_NS, part=spread.high)
    return Counterfactual(assumes=words, expected=case(RECEIVE_NS), worse=worse, better=better)
