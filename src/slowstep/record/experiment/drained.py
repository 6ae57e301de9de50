"""A plan of blocks where calls return before their work is done."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.experiment.blocks import Blocks
from slowstep.record.writing.format import ARM

if TYPE_CHECKING:
    from slowstep.record.experiment.training import Training
    from slowstep.record.recorder import Recorder

UNKNOWN: Final = "calls return before their work is done, and nothing shows when it is: blocks of such steps cannot be compared"
# What is compared with another run's has one block without end (prove/whole_run.py): its steps are as the host makes them.
_LONGEST: Final = 100_000


class DrainedBlocks(Blocks):
    """Of a block is known how long the device took for all its steps, and each has an equal share of that."""

    def __init__(self, recorder: Recorder, training: Training, plan: dict[str, Any], *, is_finite: bool = True) -> None:
        super().__init__(recorder, training, plan, is_finite=is_finite)
        self._lead = training.lead
        self._least_settling: int = plan.get("settling") or 0
        # An idle host would leave the device more of a processor that both share, for as long as it is behind.
        self._most_going_on: int = plan.get("going_on") or 0
        self._held: list[int] = []  # samples of the steps so far
        if not self._lead.drain():
            for arm in set(self._blocks):
                if self._arms.has_levers(arm):
                    self._arms.give_up(arm, UNKNOWN)

    def _end_step(self, at_ns: int, samples: int, delay_ns: int) -> int:
        if self._settling or self._steps > _LONGEST:
            return super()._end_step(at_ns, samples, delay_ns)
        self._count_used()
        if len(self._held) < self._steps:
            self._held.append(samples)
            if len(self._held) == self._steps:
                self._lead.watch_end()
        return at_ns

    def _is_over(self) -> bool:
        return super()._is_over() and (self._counted >= self._steps + self._most_going_on or self._lead.has_ended())

    def _write(self, began_ns: int, ended_ns: int) -> None:
        # That the host waited for a core need not have made a step longer.
        delay_ns = -1
        edges = [began_ns + (ended_ns - began_ns) * number // len(self._held) for number in range(len(self._held) + 1)]
        for (from_ns, to_ns), samples in zip(pairwise(edges), self._held, strict=True):
            self._recorder.event(ARM, from_ns, to_ns, self._block, samples, delay_ns, 0, self._arm)

    def _has_settled(self, at_ns: int) -> bool:
        # Until the host is as far ahead as it will be: each change of arms takes its lead.
        return self._dropped >= self._least_settling and super()._has_settled(at_ns)

    def _begin_counting(self) -> None:
        super()._begin_counting()
        self._lead.watch_begin()

    def _next(self, at_ns: int) -> bool:
        # Also after an arm that has failed within its block. Of a block with an edge that is not known no step is.
        self._lead.drain()
        if len(self._held) == self._steps and (edges := self._lead.edges_ns()) is not None:
            self._write(*edges)
        self._held.clear()
        return super()._next(at_ns)
