"""The whole out of its halves: a loader alone and a compute alone, put together, and held against the training as it is. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from slowstep.prove.stats.figures import Figure, combined, inverse, ratio
from slowstep.prove.stats.plan import Plan
from slowstep.prove.stats.readings import ExperimentSteps

How = Literal["max", "sum"]

# Within a tenth the halves explain the whole: the step time of a training that is left alone moves as much between its warm-up and its end
# (docs/definitions.md, "warm-up").
CLOSE: Final = 0.10


@dataclass(frozen=True, kw_only=True, slots=True)
class Whole:
    """Samples/s of the whole as its halves predict it, and as it is.

    `how`: with workers the loader runs beside the compute, and the slower of them is what the training takes (max); a training thread that
    makes its batches itself does one after the other (sum), unless its calls return before their work is done: then it loads beside that.
    `binds` is the half that decides, "both" where they add up, or where their intervals overlap. `cores_bound` says that both together need
    more cores than there are, and that this decides. `log_error` is |ln(predicted / real)|.

    Ms per sample that are not beside the other half: `starting_ms` of the loader's, at changes of epoch, and `receiving_ms`, in neither
    half, for the receipt of batches that lie ready.
    """

    how: How
    predicted: Figure
    real: Figure | None
    binds: Literal["loader", "compute", "both"]
    cores_bound: bool
    log_error: float | None
    starting_ms: float
    receiving_ms: float

    def share_of(self, ms: float) -> float:
        """The share that so many ms per sample have of the time: of a training that is slower than its halves predict, the smaller one."""
        rate = self.predicted.value if self.real is None else min(self.predicted.value, self.real.value)
        return ms * rate / 1e3

    @property
    def agrees(self) -> bool | None:
        """Whether prediction and training are within a tenth of each other, or their intervals overlap; None where one is unknown."""
        if self.real is None or self.log_error is None:
            return None
        overlap = self.predicted.low <= self.real.high and self.real.low <= self.predicted.high
        return overlap or self.log_error <= math.log1p(CLOSE)


def received(steps: ExperimentSteps) -> NDArray[np.int64]:
    """The samples that came in each step, 0 where no batch was asked for in it: a batch trained on several times is its first step's."""
    return np.where(_asks_for_none(steps), 0, steps.samples)


def are_silent(steps: ExperimentSteps) -> NDArray[np.bool_]:
    """Steps that received a batch and do not tell its samples."""
    return (steps.samples < 0) & ~_asks_for_none(steps)


def known_steps(steps: ExperimentSteps, counted: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The counted steps of an arm in blocks that tell the samples of each; none where most blocks do not, or where no step has any.

    Of blocks with steps in which no batch was asked for, only those of whole batches: blocks may begin and end within one.
    """
    silent = np.unique(steps.block[counted & are_silent(steps)])
    known = _of_whole_batches(steps, counted & ~np.isin(steps.block, silent))
    is_told = 2 * len(silent) <= len(np.unique(steps.block[counted])) and received(steps)[known].any()
    return known if is_told else np.zeros_like(counted)


def _asks_for_none(steps: ExperimentSteps) -> NDArray[np.bool_]:
    return np.asarray((steps.samples < 0) & (steps.input_ns == 0), dtype=np.bool_)


def _of_whole_batches(steps: ExperimentSteps, counted: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The counted steps, but of blocks with any that asks for no batch only those from the first that received one until the last."""
    found, asks_for_none = counted.copy(), counted & _asks_for_none(steps)
    for block in np.unique(steps.block[asks_for_none]):
        here = np.flatnonzero(counted & (steps.block == block))
        gave = here[~asks_for_none[here]]
        found[here] = (here >= gave[0]) & (here < gave[-1]) if len(gave) else False
    return found


def arm_rate(steps: ExperimentSteps, plan: Plan, arms: tuple[int, ...]) -> Figure | None:
    """Samples/s of arms, from the whole blocks of them that tell it; None where samples are not known or there are too few blocks."""
    order = np.asarray(plan.blocks, dtype=np.int64)
    of_arms = ~steps.settling & np.isin(steps.block, np.flatnonzero(np.isin(order, arms)))
    whole = np.bincount(steps.block[of_arms], minlength=len(order)) == plan.steps
    counted = known_steps(steps, of_arms)
    block = steps.block[counted]
    ns = np.bincount(block, weights=steps.ns[counted], minlength=len(order))
    samples = np.bincount(block, weights=received(steps)[counted], minlength=len(order))
    is_told = whole & (ns > 0)
    return ratio(samples[is_told], ns[is_told] / 1e9)


def put_together(
    loader: Figure,
    compute: Figure,
    real: Figure | None,
    *,
    workers: int,
    is_asynchronous: bool = False,
    receive_ms: float = 0.0,
    starting_ms: float = 0.0,
    core_ms: Figure | None = None,
) -> Whole:
    """Predict the whole from samples/s of its halves.

    `receive_ms`: what the training thread needs, per sample, to receive a batch that lies ready, which no cached batch shows.
    `starting_ms`: what of the loader's time, per sample, goes by at changes of epoch, where the training has nothing to compute. `core_ms`:
    CPU ms per sample of both halves together, divided by the cores there are: with workers no training goes faster than that.
    `is_asynchronous`: calls return before their work is done. What the host does beside loading is then taken for nothing.
    """
    overlap = bool(workers) or is_asynchronous
    per_loader, per_compute = inverse(loader, 1e3), inverse(compute, 1e3)
    receiving_ms = receive_ms if workers else 0.0
    starting_ms = min(starting_ms, per_loader.value) if workers else 0.0
    beside = _shifted(per_loader, -starting_ms), _shifted(per_compute, receiving_ms)
    per_sample = _shifted(combined(np.maximum if overlap else np.add, *beside), starting_ms)
    cores_bound = bool(workers) and core_ms is not None and core_ms.value > per_sample.value
    if cores_bound and core_ms is not None:
        per_sample = combined(np.maximum, per_sample, core_ms)
    predicted = inverse(per_sample, 1e3)
    return Whole(
        how="max" if overlap else "sum",
        predicted=predicted,
        real=real,
        binds=_slower(loader, compute) if overlap and not cores_bound else "both",
        cores_bound=cores_bound,
        log_error=None if real is None else abs(math.log(predicted.value / real.value)),
        starting_ms=starting_ms,
        receiving_ms=receiving_ms,
    )


def _shifted(figure: Figure, by: float) -> Figure:
    return Figure(value=figure.value + by, draws=np.maximum(figure.draws + by, 0.0))


def _slower(loader: Figure, compute: Figure) -> Literal["loader", "compute", "both"]:
    """The half that takes longer, by their own figures: as they are printed; "both" where their intervals overlap."""
    if loader.high < compute.low:
        return "loader"
    return "compute" if compute.high < loader.low else "both"
