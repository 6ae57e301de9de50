"""What a loader's curve says of other numbers of workers than its own. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from slowstep.levers.workers import LEAST_ADDED
from slowstep.prove.bench.loader_speed import Point, bend, is_surely_faster
from slowstep.prove.stats.figures import Figure
from slowstep.reasons import Reason, Wording

FASTER_WITH: Final = Wording("faster-with-workers", "{workers:count worker} {workers:plural was|were} faster")
FASTER_WITHOUT: Final = Wording("faster-without-workers", "without workers it was faster")
SLOWER: Final = Wording("more-workers-slower", "slower")
NOT_SURELY_FASTER: Final = Wording("more-workers-not-surely-faster", "not surely faster")


@dataclass(frozen=True, kw_only=True, slots=True)
class Others:
    """What a curve says of other numbers of workers: which was faster, or how more of them compare."""

    is_faster: bool
    said: Reason


def compared_with_others(point: Point, points: Sequence[Point]) -> Others | None:
    """None where no larger number was measured and no smaller one is faster."""
    rates = _rates(points)
    own = rates.get(point.workers)
    if own is None:
        return None
    faster = [workers for workers, rate in rates.items() if is_surely_faster(rate, own)]
    if faster:
        best = bend(points)
        most = best if best in faster else max(faster, key=lambda workers: rates[workers].value)
        return Others(is_faster=True, said=FASTER_WITH(workers=most) if most else FASTER_WITHOUT())
    more = [rate.value for workers, rate in rates.items() if workers > point.workers]
    if not more:
        return None
    return Others(is_faster=False, said=SLOWER() if max(more) <= own.value * (1 - LEAST_ADDED) else NOT_SURELY_FASTER())


def gain_without_workers(point: Point, points: Sequence[Point]) -> float | None:
    """How many times as fast the loader is where it carries no batch; None where it is not surely faster, or that was not measured."""
    rates = _rates(points)
    own, without = rates.get(point.workers), rates.get(0)
    if not point.workers or own is None or without is None or not is_surely_faster(without, own):
        return None
    return without.value / own.value


def _rates(points: Sequence[Point]) -> dict[int, Figure]:
    """Batches/s by the number of workers, where known."""
    return {point.workers: point.batches_per_s for point in points if point.batches_per_s is not None}
