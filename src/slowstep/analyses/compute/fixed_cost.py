"""The step's fixed cost: what a step takes however few samples it holds.

Two sources. Where steps of different sizes were seen (the last batch of an epoch is usually smaller), a line is laid through each smaller
one and the usual ones beside it, through all but the optimizer's time, which is known to be fixed. Else bounds: the optimizer's time does
not depend on the batch, and the operations of forward and backward cost at least nothing and at most DISPATCH_NS each and WEIGHT_NS per
weight; where graphs tell what grows with the samples at most, the rest of backward is fixed, and forward is as short beside it as was ever
measured. Where that is more than the operations can cost, one of both is wrong, and it may be either. Where the optimizer calls a closure
its time may be the script's own, and where gradients are sparse it grows with the rows of the batch: then it is not known to be fixed. Of
whole updates that a framework makes in one call of a graph, the call and the operations of that graph cost at least and at most what
calibration/computing.py says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slowstep.analyses.batches.counted_work import hides_its_waits
from slowstep.analyses.compute.pass_work import PassWork
from slowstep.analyses.ledger.closures import has_closures
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.steps.chance import SEED
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.calibration import computing
from slowstep.parts import OPTIMIZER, PartKind
from slowstep.timeline.timeline import CallOperations

# A smaller batch tells something when it is at most 3/4 of the usual one, and seen at least this often.
SMALL_SHARE = 0.75
FEWEST_SMALL = 5
# Where more steps than this are larger than the usual one, it is no remainder of an epoch that makes the others smaller.
LARGER_SHARE = 0.05
# A smaller step is compared with the median of so many usual ones right before it: few enough for the same speed of the machine.
BESIDE = 10
# Upper bounds of the fixed cost of forward and backward together, per autograd node and per weight (laid out anew, and its gradient
# written, once per step), and what is usual.
USUAL_DISPATCH_NS, (_, DISPATCH_NS) = computing.DISPATCH.value, computing.DISPATCH.bounds
USUAL_WEIGHT_NS, (_, WEIGHT_NS) = computing.LAYING_OUT.value, computing.LAYING_OUT.bounds
# Of what backward takes however small the batch is, its forward takes this share usually, and at least.
FORWARD_USUAL, (FORWARD_LOW, _) = computing.FORWARD_OF_BACKWARD.value, computing.FORWARD_OF_BACKWARD.bounds
# Of whole updates in one call of a graph.
CALL, OPERATION, ELEMENT = computing.GRAPH_CALL, computing.GRAPH_OPERATION, computing.GRAPH_ELEMENT
# Of those that are compiled as a whole, of which it is known what they compute.
FUSED = computing.FUSED_CALL, computing.FUSED_OPERATION
RESAMPLES = 500
# Of input, what each batch takes however few samples it holds.
PER_BATCH = (PartKind.TRANSPORT, PartKind.LOADER_OVERHEAD)


@dataclass(frozen=True, kw_only=True, slots=True)
class FixedCost:
    """Fixed cost per step in ns: `value` (None where only bounds are known), and its 90 % interval or bounds.

    `likely_ns` is the value, or between bounds what the step's operations usually cost; None where they were not counted.
    """

    value_ns: float | None
    likely_ns: float | None
    low_ns: float
    high_ns: float | None
    step_ns: float  # the usual step, of which this is a part
    samples: float | None  # in the usual step
    source: str
    smaller: int = 0  # steps of a smaller size that were seen
    varied: tuple[int, int] | None = None  # samples of the smallest and the largest steps, where their sizes were chosen


@dataclass(frozen=True, kw_only=True, slots=True)
class Passes:
    """What is known of passes beside their length: the work that may grow with the samples, whether gradients are sparse, how many threads
    of the training queue for a core in backward, on average, where operations have several (None: not known), and how many functions in
    Python a step calls (of those that take a two hundredth of it; 0 where none was timed).
    """

    work: PassWork | None = None
    are_sparse: bool = False
    queueing: float | None = 0.0
    calls: float = 0.0


def find_fixed_cost(trainer: Trainer, steps: Steps, ledger: Ledger, passes: Passes, *, busy: bool) -> FixedCost:
    """Estimate the fixed cost of the usual step, over what the training thread does itself (waits left out, also those for a core).

    On a `busy` machine every operation takes longer than what the bounds were measured for, and of a call that several threads work on
    the wait of one for a core is not what it takes longer: there they bound nothing.
    """
    work = ledger.of("compute") - ledger.of("compute", PartKind.CORE_WAIT) + ledger.of("preprocess", *PER_BATCH)
    # Inside a closure's call the script's own code may run.
    is_known = not (has_closures(trainer) or passes.are_sparse)
    optimizer = ledger.of_parts(OPTIMIZER) if is_known else np.zeros(steps.count)
    usual, small, varied = _groups(steps)
    typical = float(np.median(work[usual])) if usual.any() else float(np.median(work))
    bounds = _bounds(trainer, steps, ledger, optimizer, typical, passes.calls)
    bounds = _with_passes(bounds, trainer, ledger, passes)
    bounds = replace(bounds, low_ns=float(np.median(optimizer)), high_ns=None) if busy else bounds
    if not usual.any() or small.sum() < FEWEST_SMALL:
        return replace(bounds, smaller=int(small.sum()), varied=varied)
    line = _by_line(work, optimizer, steps.samples, usual, small)
    if bounds.high_ns is None or line.high_ns is None:
        return line
    high = max(min(line.high_ns, bounds.high_ns), line.low_ns)
    value = None if line.value_ns is None else min(line.value_ns, high)
    return replace(line, value_ns=value, likely_ns=value, high_ns=high)


def _bounds(trainer: Trainer, steps: Steps, ledger: Ledger, optimizer: Floats, typical: float, python_calls: float) -> FixedCost:
    """At least the optimizer's time; at most all that is no forward or backward, and the dispatch of those."""
    passes = ledger.of("compute", PartKind.FORWARD_AND_REST, PartKind.FORWARD, PartKind.BACKWARD, PartKind.UPDATES)
    around = ledger.of("compute") - ledger.of("compute", PartKind.CORE_WAIT) + ledger.of("preprocess", *PER_BATCH)
    rest = float(np.median(around - passes))
    calls = None if trainer.has_optimizers else trainer.facts.call_operations
    low, usual, high = _with_python(_of_passes(trainer), ledger, python_calls) if calls is None else _of_calls(calls)
    if trainer.is_asynchronous or hides_its_waits(trainer):
        # What a call takes at least may pass while it, or the host, waits for something else.
        low = 0.0

    # How long the host is seen to work is no measure of a step that goes on without it.
    most = math.inf if trainer.is_asynchronous else typical

    def with_rest(fixed_ns: float | None) -> float | None:
        return None if fixed_ns is None else min(rest + fixed_ns, most)

    return FixedCost(
        value_ns=None,
        likely_ns=with_rest(usual),
        low_ns=min(float(np.median(optimizer)) + low, typical),
        high_ns=with_rest(high),
        step_ns=typical,
        samples=_usual_size(steps),
        source="bounds from the optimizer's time and the number of operations" if calls is None else "bounds from the number of operations",
    )


def _with_passes(bounds: FixedCost, trainer: Trainer, ledger: Ledger, passes: Passes) -> FixedCost:
    """With what of forward and backward does not grow with the samples."""
    work, times = passes.work, max(trainer.backwards_per_step, 1.0)
    sizes = {round((bounds.samples or 0.0) / each) for each in (1, times)}
    if work is None or passes.queueing is None or any(map(work.may_loop_over, sizes)):
        return bounds
    # An operation is as slow as the last of its threads, and how long these wait for a core is known of all together.
    backward = float(np.median(ledger.of("compute", PartKind.BACKWARD))) * (1 - min(passes.queueing, 1.0))
    forward = float(np.median(ledger.of("compute", PartKind.FORWARD_AND_REST, PartKind.FORWARD)))
    if backward <= work.most_ns * times:
        return bounds

    def fixed(grows_ns: float, share: float) -> float:
        left = backward - grows_ns * times
        # Of several passes each may go through the same forward.
        return min(bounds.low_ns + left + min(left / times * share, forward), bounds.step_ns)

    low, usual = fixed(work.most_ns, FORWARD_LOW), fixed(work.usual_ns, FORWARD_USUAL)
    high = bounds.high_ns
    if high is not None and low > high:
        return replace(bounds, high_ns=low)
    likely = None if bounds.likely_ns is None or high is None else min(max(bounds.likely_ns, usual), high)
    source = "bounds from the optimizer's time, the number of operations and what they compute"
    return replace(bounds, low_ns=low, likely_ns=likely, source=source)


_Range = tuple[float, float | None, float | None]  # ns at least, usually and at most


def _of_passes(trainer: Trainer) -> _Range:
    """What forward and backward take however small the batch is."""
    nodes, weights = trainer.facts.graph_nodes, trainer.facts.graph_elements or 0
    if nodes is None:
        return 0.0, None, None
    times = max(trainer.backwards_per_step, 1.0)
    return 0.0, (nodes * USUAL_DISPATCH_NS + weights * USUAL_WEIGHT_NS) * times, (nodes * DISPATCH_NS + weights * WEIGHT_NS) * times


def _with_python(passes: _Range, ledger: Ledger, calls: float) -> _Range:
    """With Python around operations, of which a layer of Keras on PyTorch takes several times what the layer does: at most what a forward
    takes beyond what layers usually take beside their backward, and no more than so many calls of functions do.
    """
    low, usual, high = passes
    backward, forward = (
        float(np.median(ledger.of("compute", *kinds))) for kinds in ((PartKind.BACKWARD,), (PartKind.FORWARD_AND_REST, PartKind.FORWARD))
    )
    beyond = max(forward - backward / computing.LAYERS_BACKWARD.value, 0.0)
    return low, usual, None if high is None else high + min(beyond, calls * computing.PYTHON_CALL.value)


def _of_calls(calls: CallOperations) -> _Range:
    """What a call of a graph takes that makes a whole update."""
    call, operation = (CALL, OPERATION) if calls.work is None else FUSED
    (call_low, call_high), (operation_low, operation_high), (_, element_high) = call.bounds, operation.bounds, ELEMENT.bounds
    low = call_low + calls.fewest * operation_low
    if calls.most is None or calls.elements is None:
        return low, None, None
    usual = call.value + calls.most * operation.value + calls.elements * ELEMENT.value
    high = call_high + calls.most * operation_high + calls.elements * element_high
    return low, max(usual, low), max(high, low)


def _usual_size(steps: Steps) -> float | None:
    """The median size: that of a step, and of two in the middle the larger."""
    known = steps.samples[np.isfinite(steps.samples) & (steps.samples > 0)]
    return float(np.percentile(known, 50, method="higher")) if len(known) else None


def _groups(steps: Steps) -> tuple[NDArray[np.bool_], NDArray[np.bool_], tuple[int, int] | None]:
    """Steps of the usual size, and smaller ones that tell something; else the samples of the smallest and the largest steps."""
    nothing, size = np.zeros(steps.count, dtype=bool), _usual_size(steps)
    if size is None:
        return nothing, nothing, None
    usual = steps.samples == size
    small = (steps.samples > 0) & (steps.samples <= SMALL_SHARE * size)
    # The rest of an epoch follows a usual step. Many smaller ones in a row are of a part of the run in which the batch size was another
    # one: no usual ones are beside those.
    rests = small & np.append(False, usual[:-1])
    known = steps.samples[steps.samples > 0]
    if (known > size).mean() > LARGER_SHARE or 2 * rests.sum() < small.sum():
        # Sizes that vary both ways are chosen by the length of the samples: small batches then hold long ones.
        return usual, nothing, (int(known.min()), int(known.max()))
    return usual, small, None


def _by_line(work: Floats, optimizer: Floats, samples: Floats, usual: NDArray[np.bool_], small: NDArray[np.bool_]) -> FixedCost:
    """The optimizer's time, and what the line leaves of the rest: what is known to be fixed adds no noise to the line."""
    rest, update = work - optimizer, float(np.median(optimizer[usual]))
    typical = float(np.median(rest[usual]))
    shares = _shares(rest, samples, np.flatnonzero(usual), np.flatnonzero(small))
    draws = np.random.default_rng(SEED).choice(shares, (RESAMPLES, len(shares)))
    low, high = np.percentile(np.median(draws, axis=1), [5, 95])

    def with_update(share: float) -> float:
        return update + float(min(max(share, 0.0), 1.0)) * typical

    value = with_update(float(np.median(shares)))
    return FixedCost(
        value_ns=value,
        likely_ns=value,
        low_ns=with_update(float(low)),
        high_ns=with_update(float(high)),
        step_ns=float(np.median(work[usual])),
        samples=float(samples[usual][0]),
        source=f"from {len(shares)} smaller batches",
        smaller=len(shares),
    )


def _shares(work: Floats, samples: Floats, usual: NDArray[np.intp], small: NDArray[np.intp]) -> Floats:
    """For each smaller step the share of a usual one that the line through it and the usual steps beside it leaves at size 0.

    Against those beside it, because a machine's speed drifts: within one run the same steps took 18 ms at first and 23 ms later.
    """
    # Those before it: the steps after it meet the loader's start into the next epoch.
    places = np.searchsorted(usual, small)
    beside = np.array([np.median(work[usual[max(k - BESIDE, 0) : k] if k else usual[:BESIDE]]) for k in places])
    n, m = samples[usual[0]], samples[small]
    shares: Floats = 1 - (1 - work[small] / np.maximum(beside, 1.0)) * n / (n - m)
    return shares
