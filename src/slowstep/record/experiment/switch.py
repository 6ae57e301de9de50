"""Which lever is on at which step: walks the plan of an experiment, block after block, on the training thread.

The plan comes from outside, as a file in the recording's folder, and is taken up at a boundary. What happens is written as ARM records,
one a step, and as `lever` notes: made ready, not applicable, failed. Nothing here decides when to end: whoever posted the plan reads the
records, and ends the process.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final, Protocol

from slowstep.record.experiment.always import Always
from slowstep.record.experiment.block_losses import BadLoss
from slowstep.record.experiment.blocks import Blocks
from slowstep.record.experiment.device_lead import Wait
from slowstep.record.experiment.drained import DrainedBlocks
from slowstep.record.experiment.in_step import MOST_RANKS, LocalRank, Ranks, Vote, find_place
from slowstep.record.experiment.tasks import Task
from slowstep.record.experiment.training import Training
from slowstep.record.recorder import now
from slowstep.record.writing import format as contract

if TYPE_CHECKING:
    from slowstep.record.device.last_loss import Answer
    from slowstep.record.recorder import Recorder

# Why ranks of a job cannot have a lever.
ELSEWHERE: Final = (
    f"the job has ranks on other machines, or more than {MOST_RANKS} on this one: they cannot be switched in step with each other"
)
ELSEWHERE_GONE: Final = "another rank of the job cannot have it, and all must have it or none"
RUN_AHEAD: Final = "in several ranks calls return before their work is done: blocks of such steps cannot be compared there"
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

    def updated(self, optimizer: Any, wait: Wait | None = None) -> None:
        """An optimizer's step has ended; `wait` waits until the device has made it, where the call returned before."""
        if self.training.updated(optimizer, wait) and not (self._walker is not None and self._is_request):
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
            # What was handed over before is not to be done beside it.
            self.training.lead.drain()
            return Task(self._recorder, self.training, plan["task"], plan.get("arguments") or {})
        self._hear()
        runs_ahead = bool(self._recorder.framework.facts().get("asynchronous"))
        if self._place is None:
            walks = DrainedBlocks if runs_ahead else Blocks
            return walks(self._recorder, self.training, plan, is_finite=self._is_finite)
        ranks = Ranks(self._recorder.page.bytes, self._place, self._number)
        return InStep(
            self._recorder,
            self.training,
            plan,
            ranks,
            is_finite=self._is_finite,
            refused=ELSEWHERE if not self._place.is_whole else RUN_AHEAD if runs_ahead else None,
            is_mine=self._is_mine,
        )


def switch_of(recorder: Recorder) -> Switch | None:
    """The one of this process; None in runs that were asked for no lever."""
    return recorder.shared(Switch) if recorder.experiment or recorder.levers else None


class InStep(Blocks):
    """The same in one of several ranks: what a rank would do by itself is what all do one boundary after all of them would.

    `refused`: why ranks of this job can have no lever, None where they can; `is_mine`: whether the steps of this one are compared.
    """

    def __init__(
        self,
        recorder: Recorder,
        training: Training,
        plan: dict[str, Any],
        ranks: Ranks,
        *,
        is_finite: bool,
        refused: str | None = None,
        is_mine: bool,
    ) -> None:
        super().__init__(recorder, training, plan, is_finite=is_finite)
        self._ranks, self._is_mine = ranks, is_mine
        self._votes: list[Vote] | None = None
        self._out = 0
        # What is to be done about a loss that was not finite, once the others know.
        self._found: list[BadLoss] = []
        if refused is not None:
            self._give_up(self._all_arms, refused)

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
        if self._agreed() or not self._has_levers_left:
            return True
        if at_ns - self._since_ns <= 2 * self._ready_ns:
            return False
        self._give_up(self._all_arms, OUT_OF_STEP)
        return True

    def _has_settled(self, at_ns: int) -> bool:
        # With no lever left nothing is switched, and nobody needs to agree.
        return self._agreed() or not self._has_levers_left

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
    def _has_levers_left(self) -> bool:
        return bool(self._all_arms & ~self._out)

    @property
    def _all_arms(self) -> int:
        return sum(1 << arm for arm in set(self._blocks) if self._arms.has_levers(arm))

    def _give_up(self, arms: int, reason: str) -> None:
        for arm in range(arms.bit_length()):
            if arms >> arm & 1:
                self._arms.give_up(arm, reason)
        self._out |= arms
