"""Which lever is on at which step: walks the plan of an experiment, block after block, on the training thread.

The plan comes from outside, as a file in the recording's folder, and is taken up at a boundary. What happens is written as ARM records,
one a step, and as `lever` notes: made ready, not applicable, failed. Nothing here decides when to end: whoever posted the plan reads the
records, and ends the process.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from slowstep.record.experiment.always import Always
from slowstep.record.experiment.arms import AS_IS, Arms
from slowstep.record.experiment.block_losses import BadLoss, BlockLosses
from slowstep.record.experiment.in_step import MOST_RANKS, LocalRank, Ranks, Vote, find_place
from slowstep.record.experiment.tasks import Task
from slowstep.record.experiment.training import Training
from slowstep.record.recorder import now
from slowstep.record.writing import format as contract
from slowstep.record.writing.format import ARM, SETTLING

if TYPE_CHECKING:
    from slowstep.record.device.last_loss import Answer
    from slowstep.record.recorder import Recorder

# Steps after which an arm is measured although it does not say that it has settled, and so long: whichever is longer.
MOST_SETTLING: Final = 50
SETTLING_NS: Final = 3_000_000_000
# So long levers may take to see what they need, before they are not applicable; less where the plan's budget is short.
READY_NS: Final = 20_000_000_000
# Why ranks of a job cannot have a lever.
ELSEWHERE: Final = (
    f"the job has ranks on other machines, or more than {MOST_RANKS} on this one: they cannot be switched in step with each other"
)
ELSEWHERE_GONE: Final = "another rank of the job cannot have it, and all must have it or none"
OUT_OF_STEP: Final = "the ranks of the job do not make their updates in step with each other, so none can be switched with the others"


class Walker(Protocol):
    """What is done at a boundary while a plan is on."""

    def boundary(self, at_ns: int, samples: int, delay_ns: int) -> bool:
        """A step has ended. Returns False when there is nothing more to do."""

    def close(self) -> None:
        """Undo whatever is on: another plan was posted before this one's end."""


class Switch:
    """Follows the training from its first request on, takes up a plan when one is posted, and walks it."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder, self.training = recorder, Training(recorder)
        self._always = Always(recorder, self.training, recorder.levers)
        self._walker: Walker | None = None
        self._alone = os.getpid()
        self._samples = -1
        self._delay_ns = -1
        self._is_request = self._is_inside = False
        # Whether the loss was finite as it is, when it was looked at last.
        self._is_finite = True
        self._answer: Answer | None = None
        self._is_mine = True
        # The last plan that was taken up, or was found to be another process's.
        self._number = 0
        self._place: LocalRank | None = None

    def built(self, loader: Any, place: int, framework: str) -> None:
        """The script has built a loader of a framework at a place (record/experiment/building.py)."""
        self.training.built(loader, place)
        self._always.built(loader, place, framework)

    def requested(self, iterator: Any) -> None:
        """An iterator is about to be asked for a batch."""
        if self.training.requested(iterator) and (self._walker is None or self._is_request):
            self._at_boundary(is_request=True)

    def received(self, iterator: Any, samples: int, waited_ns: int) -> None:
        """It gave one of so many samples (-1 unknown), after so long; 0: it has ended."""
        self.training.received(iterator, waited_ns, is_batch=samples != 0)
        if self.training.is_input(iterator) and samples >= 0:
            self._samples = max(self._samples, 0) + samples

    def updated(self, optimizer: Any) -> None:
        """An optimizer's step has ended."""
        if self.training.updated(optimizer) and not (self._walker is not None and self._is_request):
            self._at_boundary(is_request=False)

    def close(self) -> None:
        """Undo what is on all the time; called when the recording ends before the training does."""
        self._always.close()

    def _at_boundary(self, *, is_request: bool) -> None:
        # A task asks loaders for batches itself, at what would be a boundary.
        if self._is_inside:
            return
        if self._walker is None and (os.getpid() != self._alone or is_request != self.training.boundary_is_request):
            return
        self._is_inside = True
        try:
            self._walk(is_request=is_request)
        finally:
            self._is_inside = False

    def _walk(self, *, is_request: bool) -> None:
        self._always.boundary(now())
        page = self._recorder.page.bytes
        if (plan := self._new_plan()) is not None:
            walker, self._walker = self._walker, None
            if walker is not None:
                walker.close()
            self._is_request = is_request
            # Notes are written once the files are there.
            self._recorder.ensure_open()
            self._recorder.stop_timing_calls()
            self.training.hold()
            self._walker = self._take_up(plan)
        if self._walker is None:
            self._look_at_loss()
            return
        delay_ns = self._recorder.local.me.delay_ns()
        delay_ns = -1 if delay_ns is None else delay_ns
        waited_ns = delay_ns - self._delay_ns if min(delay_ns, self._delay_ns) >= 0 else -1
        at_ns = now()
        if not self._walker.boundary(at_ns, self._samples, waited_ns):
            self._walker = None
            # A plan that was taken up while it was being posted says that it is posted still.
            is_this = self._number and self._recorder.page.plan_number == self._number
            if self._is_mine and (is_this or page[contract.CONTROL_PLAN] == contract.PLAN_TAKEN):
                page[contract.CONTROL_PLAN] = contract.PLAN_DONE
        self._samples, self._delay_ns = -1, delay_ns

    def _look_at_loss(self) -> None:
        """Before there is a plan: twice as rarely each time, so that what is known is never older than half of the training."""
        loss = self._recorder.last_loss
        if loss.is_wanted:
            self._answer = loss.take()
        elif self._answer is None and self._recorder.experiment and (updates := self.training.updates) & (updates - 1) == 0:
            loss.want()
        self._hear()

    def _hear(self) -> None:
        """Take the answer once a device has given it."""
        if self._answer is not None and (finite := self._answer()) is not None:
            self._is_finite, self._answer = finite, None

    def _new_plan(self) -> dict[str, Any] | None:
        """A plan that was posted and is to be walked here: by the process that it is for, and by the other ranks of its job."""
        page, number = self._recorder.page.bytes, self._recorder.page.plan_number
        state = page[contract.CONTROL_PLAN]
        if state not in (contract.PLAN_POSTED, contract.PLAN_TAKEN) or (number == self._number and state == contract.PLAN_TAKEN):
            return None
        if number and number == self._number:
            return None
        with open(os.path.join(self._recorder.folder, contract.PLAN_FILE), encoding="utf-8") as file:
            plan: dict[str, Any] = json.load(file)
        self._number, self._place = number, find_place(self._recorder.framework)
        process = plan.get("process")
        self._is_mine = process == os.getpid() or (process is None and (self._place is None or self._place.number == 0))
        if self._is_mine:
            page[contract.CONTROL_PLAN] = contract.PLAN_TAKEN
        elif self._place is None or plan.get("task"):
            return None
        return plan

    def _take_up(self, plan: dict[str, Any]) -> Walker:
        if plan.get("task"):
            return Task(self._recorder, self.training, plan["task"], plan.get("arguments") or {})
        self._hear()
        if self._place is None:
            return Blocks(self._recorder, self.training, plan, is_finite=self._is_finite)
        ranks = Ranks(self._recorder.page.bytes, self._place, self._number)
        return InStep(
            self._recorder,
            self.training,
            plan,
            ranks,
            is_finite=self._is_finite,
            is_whole=self._place.is_whole,
            is_mine=self._is_mine,
        )


class Blocks:
    """A plan of blocks: each so many steps of one arm, before them those in which the training settles."""

    def __init__(self, recorder: Recorder, training: Training, plan: dict[str, Any], *, is_finite: bool = True) -> None:
        self._recorder, self._training = recorder, training
        longest_s, ready_s = plan.get("longest_step_s"), plan.get("ready_s")
        training.longest_step_ns = None if longest_s is None else int(longest_s * 1e9)
        self._ready_ns = READY_NS if ready_s is None else min(READY_NS, int(ready_s * 1e9))
        self._losses = BlockLosses(recorder.last_loss, is_finite=is_finite)
        if not is_finite:
            self._say_own_loss()
        self._arms = Arms(recorder, training, plan["arms"])
        self._blocks: list[int] = plan["blocks"]
        self._steps: int = plan["steps"]
        self._block, self._arm = -1, AS_IS
        self._counted = self._dropped = 0
        self._since_ns = self._step_ns = self._cpu_ns = self._used_ns = 0
        self._settling = True

    def boundary(self, at_ns: int, samples: int, delay_ns: int) -> bool:
        """End a step; go on to the next block where this was its last. False after the last block of all."""
        if self._step_ns:
            flags = SETTLING if self._settling else 0
            self._recorder.event(ARM, self._step_ns, at_ns, self._block, samples, delay_ns, flags, self._arm)
            if not flags:
                self._used_ns += time.process_time_ns() - self._cpu_ns
        else:
            self._since_ns = at_ns
        more = self._advance(at_ns)
        # Switching takes time, which is no step's.
        self._step_ns, self._cpu_ns = now(), time.process_time_ns()
        return more

    def close(self) -> None:
        """Switch off and remove every lever."""
        self._arms.close()

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
            self._dropped += 1
            self._settling = not self._has_settled(at_ns)
            if not self._settling:
                self._arms.begin_counting(self._arm)
        else:
            self._counted += 1
        self._arms.each_step(self._arm)
        if not self._settling and self._counted == self._steps - 1:
            self._losses.want(self._block, self._arm)
        # What is left of the block of an arm that has failed would be the training as it is, under the arm's name.
        if self._counted >= self._steps or not self._goes_on():
            return self._next(at_ns)
        return True

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
        remedy = "the training's own loss was not finite, so nobody looked at what levers do to it"
        self._recorder.health("loss-not-finite", "notice", remedy)

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
            remedy = "the training did not return to how it was before a lever: the gains measured after such blocks are less sure"
            self._recorder.health("unsettled-block", "notice", remedy)
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


class InStep(Blocks):
    """The same in one of several ranks: what a rank would do by itself is what all do one boundary after all of them would.

    `is_whole`: whether all ranks of the job are on this machine; `is_mine`: whether the steps of this one are compared.
    """

    def __init__(
        self,
        recorder: Recorder,
        training: Training,
        plan: dict[str, Any],
        ranks: Ranks,
        *,
        is_finite: bool,
        is_whole: bool,
        is_mine: bool,
    ) -> None:
        super().__init__(recorder, training, plan, is_finite=is_finite)
        self._ranks, self._is_mine = ranks, is_mine
        self._votes: list[Vote] | None = None
        self._out = 0
        # What is to be done about a loss that was not finite, once the others know.
        self._found: list[BadLoss] = []
        if not is_whole:
            self._give_up(self._all_arms, ELSEWHERE)

    def _advance(self, at_ns: int) -> bool:
        update = self._training.updates
        if self._block >= 0 and not self._ranks.are_at(update - 1):
            self._give_up(self._all_arms, OUT_OF_STEP)
        self._votes = self._ranks.all_at(update - 1, self._block)
        self._do_what_is_known()
        for vote in self._votes or ():
            self._give_up(vote.gone, ELSEWHERE_GONE)
        is_ready = super()._may_begin(at_ns) if self._block < 0 else self._settling and super()._has_settled(at_ns)
        self._ranks.publish(update, self._block, Vote(is_ready, self._out | self._wanted_out | self._arms.gone(for_all=not self._is_mine)))
        return super()._advance(at_ns)

    def _may_begin(self, at_ns: int) -> bool:
        if self._agreed():
            return True
        if at_ns - self._since_ns <= 2 * self._ready_ns:
            return False
        self._give_up(self._all_arms, OUT_OF_STEP)
        return True

    def _has_settled(self, at_ns: int) -> bool:
        # With no lever left nothing is switched, and nobody needs to agree.
        return self._agreed() or not self._all_arms & ~self._out

    def _goes_on_after(self, found: BadLoss) -> bool:
        # In this rank alone no lever is switched: the others hear of it first.
        if found.what == "own":
            return super()._goes_on_after(found)
        self._found.append(found)
        return True

    def _do_what_is_known(self) -> None:
        """What this rank has found of the loss, where all ranks have heard of it."""
        if self._votes is None or not self._found or self._wanted_out & ~self._votes[self._ranks.number].gone:
            return
        for found in self._found:
            if found.what == "blamed":
                self._arms.end_for_loss(found.arms, found.updates)
            else:
                self._arms.say_spoilt(found.arms, found.block)
        self._out |= self._wanted_out
        self._found.clear()

    @property
    def _wanted_out(self) -> int:
        """The arms in question, all of them where the training stays spoilt."""
        arms = sum(1 << arm for arm in {arm for found in self._found for arm in found.arms})
        return self._all_arms | arms if any(found.what == "spoilt" for found in self._found) else arms

    def _goes_on(self) -> bool:
        # By what all know: an arm that failed here alone is told to them first.
        return self._is_alive(self._blocks[self._block])

    def _is_alive(self, arm: int) -> bool:
        return not self._out >> arm & 1

    def _agreed(self) -> bool:
        return self._votes is not None and all(vote.yes for vote in self._votes)

    @property
    def _all_arms(self) -> int:
        return sum(1 << arm for arm in set(self._blocks) if self._arms.has_levers(arm))

    def _give_up(self, arms: int, reason: str) -> None:
        for arm in range(arms.bit_length()):
            if arms >> arm & 1:
                self._arms.give_up(arm, reason)
        self._out |= arms
