"""What a step takes where worker processes make the batches that now the training's own process makes."""

from __future__ import annotations

from slowstep.analyses.delivery import RECEIVE_NS
from slowstep.diagnosis.gain import Case, Counterfactual
from slowstep.diagnosis.input_side import RECEIVE_HIGH_NS, RECEIVE_LOW_NS, SIDE_BY_SIDE, Side, beside_ns
from slowstep.diagnosis.trainer_side import WORSE_BESIDE
from slowstep.units import format_count


def made_by_workers(side: Side, workers: int, spread: float = 0.0) -> Counterfactual:
    """`spread`: relative half width of the interval of what is removed, where stacks tell it."""

    def case(receive_ns: float, slowed: float = 0.0, part: float = 1.0, factor: float = 1.0) -> Case:
        removed = part * side.removable_ns - receive_ns - slowed * side.rest_ns
        # Receiving is work that was not there before.
        return Case(removed_ns=removed, beside_ns=factor * beside_ns(side, workers, spared_cpu_ns=-receive_ns))

    words = f"batches are made by {format_count(workers, 'worker')} beside the training; receiving one takes 1 ms"
    worse, better = case(RECEIVE_HIGH_NS, SIDE_BY_SIDE, 1 - spread, WORSE_BESIDE), case(RECEIVE_LOW_NS, part=1 + spread)
    return Counterfactual(assumes=words, expected=case(RECEIVE_NS), worse=worse, better=better)
