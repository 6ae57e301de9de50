"""Walks a plan of blocks: each so many steps of one arm, step after step, on the training thread."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from slowstep.health import HealthKind
from slowstep.record.experiment.arms import AS_IS, READY_NS, Arms
from slowstep.record.experiment.block_losses import BadLoss, BlockLosses
from slowstep.record.recorder import now
from slowstep.record.writing.format import ARM, SETTLING

if TYPE_CHECKING:
    from slowstep.record.experiment.one_call import OneCall
    from slowstep.record.experiment.training import Training
    from slowstep.record.recorder import Recorder

# Steps after which an arm is measured although it does not say that it has settled, and so long: whichever is longer.
MOST_SETTLING: Final = 50
SETTLING_NS: Final = 3_000_000_000

LOSS_NOT_FINITE: Final = HealthKind(
    "loss-not-finite", "notice", "the training's own loss was not finite, so nobody looked at what levers do to it"
)
UNSETTLED_BLOCK: Final = HealthKind(
    "unsettled-block",
    "notice",
    "the training did not return to how it was before a lever: the gains measured after such blocks are less sure",
)


class Blocks:
    """A plan of blocks: each so many steps of one arm, before them those in which the training settles.

    Where a lever makes several steps by one call (`Training.called_once`), each of them has its share of what that took.
    """

    def __init__(self, recorder: Recorder, training: Training, plan: dict[str, Any], *, is_finite: bool = True) -> None:
        self._recorder, self._training = recorder, training
        longest_s, ready_s = plan.get("longest_step_s"), plan.get("ready_s")
        training.longest_step_ns = None if longest_s is None else int(longest_s * 1e9)
        self._ready_ns = READY_NS if ready_s is None else min(READY_NS, int(ready_s * 1e9))
        self._losses = BlockLosses(recorder.last_loss, is_finite=is_finite)
        if not is_finite:
            self._say_own_loss()
        self._arms = Arms(recorder, training, plan["arms"], without=plan.get("given_up", ()))
        self._blocks: list[int] = plan["blocks"]
        self._steps: int = plan["steps"]
        self._block, self._arm = -1, AS_IS
        self._counted = self._dropped = 0
        # That the boundary ends.
        self._made = 1
        self._since_ns = self._step_ns = self._cpu_ns = self._used_ns = 0
        self._settling = True

    def boundary(self, at_ns: int, samples: int, delay_ns: int) -> bool:
        """End a step; go on to the next block where this was its last. False after the last block of all."""
        call, self._training.one_call = self._training.one_call, None
        self._made = 1 if call is None else call.steps
        if self._step_ns and call is not None:
            self._end_call(call, at_ns, samples, delay_ns)
        elif self._step_ns:
            at_ns = self._end_step(at_ns, samples, delay_ns)
        else:
            self._since_ns = at_ns
        more = self._advance(at_ns)
        # Switching takes time, which is no step's.
        self._step_ns, self._cpu_ns = now(), time.process_time_ns()
        return more

    def close(self) -> None:
        """Switch off and remove every lever."""
        self._arms.close()

    def _end_step(self, at_ns: int, samples: int, delay_ns: int) -> int:
        """Write it down. Returns when it ended."""
        self._recorder.event(ARM, self._step_ns, at_ns, self._block, samples, delay_ns, SETTLING if self._settling else 0, self._arm)
        if not self._settling:
            self._count_used()
        return at_ns

    def _end_call(self, call: OneCall, at_ns: int, samples: int, delay_ns: int) -> None:
        """Write down the steps of a call that has made several; those that the block has no room for are left out."""
        most = call.steps if self._settling else self._steps - self._counted
        edges = call.edges_ns(self._step_ns, at_ns, most)
        delay_ns = delay_ns // call.steps if delay_ns >= 0 else -1
        flags = SETTLING if self._settling else 0
        for number, (from_ns, to_ns) in enumerate(pairwise(edges)):
            given = -1 if samples < 0 else (number + 1) * samples // call.steps - number * samples // call.steps
            self._recorder.event(ARM, from_ns, to_ns, self._block, given, delay_ns, flags, self._arm)
        if not self._settling:
            self._count_used()

    def _count_used(self) -> None:
        self._used_ns += time.process_time_ns() - self._cpu_ns

    def _begin_counting(self) -> None:
        self._arms.begin_counting(self._arm)

    def _advance(self, at_ns: int) -> bool:
        if self._block < 0:
            if self._may_begin(at_ns):
                self._arms.give_up_unready()
                self._next(at_ns)
            return True
        if self._block >= len(self._blocks):
            return False
        if (found := self._losses.step_ended(self._training.updates)) is not None and not self._goes_on_after(found):
            return False
        if self._settling:
            self._dropped += self._made
            self._settling = not self._has_settled(at_ns)
            if not self._settling:
                self._begin_counting()
        else:
            self._counted += self._made
        self._arms.each_step(self._arm)
        if not self._settling and 0 < self._steps - self._counted <= self._made:
            self._losses.want(self._block, self._arm)
        # What is left of the block of an arm that has failed would be the training as it is, under the arm's name.
        if self._is_over() or not self._goes_on():
            return self._next(at_ns)
        return True

    def _is_over(self) -> bool:
        return self._counted >= self._steps

    def _goes_on_after(self, found: BadLoss) -> bool:
        """A loss was not finite: end the levers in question; where the training stays spoilt, the whole plan."""
        if found.what == "own":
            self._say_own_loss()
        elif found.what == "blamed":
            self._arms.end_for_loss(found.arms, found.updates)
        else:
            self._arms.say_spoilt(found.arms, found.block)
            self._end()
        return found.what != "spoilt"

    def _say_own_loss(self) -> None:
        self._recorder.health(LOSS_NOT_FINITE)

    def _may_begin(self, at_ns: int) -> bool:
        return self._arms.are_ready() or at_ns - self._since_ns > self._ready_ns

    def _has_settled(self, at_ns: int) -> bool:
        return self._arms.are_settled() or self._is_overdue(at_ns)

    def _goes_on(self) -> bool:
        return self._arms.is_alive(self._arm)

    def _is_alive(self, arm: int) -> bool:
        return self._arms.is_alive(arm)

    def _is_overdue(self, at_ns: int) -> bool:
        overdue = self._dropped >= MOST_SETTLING and at_ns - self._since_ns > SETTLING_NS
        if overdue:
            self._recorder.health(UNSETTLED_BLOCK)
        return overdue

    def _next(self, at_ns: int) -> bool:
        if self._counted:
            # What this process alone used in the counted steps: its workers are others.
            self._recorder.note({"kind": "block", "block": self._block, "arm": self._arm, "steps": self._counted, "cpu_ns": self._used_ns})
        self._counted = self._dropped = self._used_ns = 0
        self._since_ns, self._settling = at_ns, True
        self._block += 1
        # An arm that failed is passed over.
        while self._block < len(self._blocks) and not self._is_alive(self._blocks[self._block]):
            self._block += 1
        if self._block >= len(self._blocks):
            self._end()
            return False
        before, self._arm = self._arm, self._arms.change_to(self._blocks[self._block])
        self._losses.want(self._block, before, self._arm)
        return True

    def _end(self) -> None:
        self._block, self._arm = len(self._blocks), AS_IS
        self._arms.close()
