"""Operations of a step that the host dispatches one by one, where its framework could compile them: how much of the step that is.

Two kinds of evidence tell it. Where operations return when they are done, each is timed in a few steps (timed_operations.py). Where they
return before, stacks show that the training thread stands in one while the device has nothing to do (ledger/by_operation.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.analyses.compute.timed_operations import Range, TimedOperations, find_timed_operations
from slowstep.analyses.ledger.by_operation import ByOperation
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.steps.steps import Steps
from slowstep.analyses.steps.trainer import Trainer

# A step that is one call has fewer, with those that fetch its batch and look at what it gave.
FEWEST_OPERATIONS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Dispatched:
    """All times are ns of the mean step, of `own_ns` that the thread works in it. The thread's waits for a core are in none of them where
    operations were timed; stacks do not tell these from its work, and `own_ns` is the whole step then.

    `handing_over` is the host's work on operations while nothing is computed, `kernels` what they compute.
    """

    handing_over: Range
    kernels: Range
    own_ns: float
    timed: TimedOperations | None = None
    sampled: ByOperation | None = None

    @property
    def operations(self) -> float | None:
        """How many a step has; None where stacks tell."""
        return None if self.timed is None else self.timed.operations

    @property
    def is_one_call(self) -> bool:
        """Whether there are no more than beside a step that is one call of a compiled function."""
        return self.operations is not None and self.operations < FEWEST_OPERATIONS


def find_dispatched(trainer: Trainer, steps: Steps, ledger: Ledger) -> Dispatched | None:
    """None where neither tells of any. A device's idling tells more than the times of calls that return before they are done."""
    timed, sampled = find_timed_operations(trainer, steps), ledger.by_operation
    if sampled is not None and (timed is None or timed.is_asynchronous):
        return of_stacks(sampled, steps.length_ns / steps.count)
    return None if timed is None else of_timed(timed)


def of_timed(timed: TimedOperations) -> Dispatched:
    """What timed steps say."""
    return Dispatched(handing_over=timed.handing_over, kernels=timed.kernels, own_ns=timed.own_ns, timed=timed)


def of_stacks(found: ByOperation, step_ns: float) -> Dispatched:
    """What stacks say of steps of `step_ns`. While the device worked it was at most on these operations, and at least on what was called
    before: then the thread did not wait for it, and at best all of it was handing over.
    """
    worked_ns = found.worked / found.of * step_ns
    return Dispatched(
        handing_over=Range(expected=found.share * step_ns, low=found.low * step_ns, high=found.high_of_all * step_ns),
        kernels=Range(expected=worked_ns, low=0.0, high=worked_ns),
        own_ns=step_ns,
        sampled=found,
    )
