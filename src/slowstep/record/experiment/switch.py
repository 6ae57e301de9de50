"""Which lever is on at which step: walks the plan of an experiment, block after block, on the training thread.

The plan comes from outside, as a file in the recording's folder, and is taken up at a boundary. What happens is written as ARM records,
one a step, and as `lever` notes: made ready, not applicable, failed. Nothing here decides when to end: whoever posted the plan reads the
records, and ends the process.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Protocol

from slowstep.record.experiment.always import Always
from slowstep.record.experiment.blocks import LOSS_NOT_FINITE, Blocks
from slowstep.record.experiment.device_lead import Wait
from slowstep.record.experiment.drained import DrainedBlocks
from slowstep.record.experiment.in_step import ASYNCHRONOUS, ELSEWHERE, InStep, LocalRank, Ranks, find_local_rank
from slowstep.record.experiment.losses import asked_losses
from slowstep.record.experiment.made_calls import OPTIMIZER, TRAINER, MadeCalls
from slowstep.record.experiment.tasks import Task
from slowstep.record.experiment.training import Training
from slowstep.record.recorder import now
from slowstep.record.writing import format as contract

if TYPE_CHECKING:
    from slowstep.record.device.last_loss import IsFinite
    from slowstep.record.recorder import Recorder


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
        self._is_request = self._is_inside = self._is_closed = self._has_plan = self._had_plan = False
        # Whether the loss was finite as it is, when it was looked at last.
        self._is_finite = True
        self._answer: IsFinite | None = None
        self._losses = asked_losses(recorder)
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
        """Undo what is on, all the time or by a plan; called when the recording ends before the training does."""
        self._is_closed = True
        # In the middle of a switch there would be on afterwards what was just undone.
        if not self._is_inside:
            self._undo_all()

    def _undo_all(self) -> None:
        self._drop_plan()
        self._always.close()

    def _at_boundary(self, *, is_request: bool) -> None:
        # A task asks loaders for batches itself, at what would be a boundary; so may a child that was forked while a plan is on.
        if self._is_inside or self._is_closed or os.getpid() != self._alone:
            return
        if self._walker is None and is_request != self.training.boundary_is_request:
            return
        self._is_inside = True
        try:
            self._walk(is_request=is_request)
        except BaseException:
            # Levers that are on would stay so, and whoever posted the plan would wait for its end.
            self._drop_plan()
            raise
        finally:
            self._leave_boundary()

    def _leave_boundary(self) -> None:
        self._is_inside = False
        if self._is_closed:
            self._undo_all()

    def _drop_plan(self) -> None:
        """End the plan before its own end. What a forked child has of it is its parent's."""
        if not self._has_plan or os.getpid() != self._alone:
            return
        try:
            if self._walker is not None:
                self._walker.close()
        finally:
            self._say_done()

    def _say_done(self) -> None:
        self._walker, self._has_plan = None, False
        page = self._recorder.page.bytes
        # A plan that was taken up while it was being posted says that it is posted still.
        is_this = self._number and self._recorder.page.plan_number == self._number
        if self._is_mine and (is_this or page[contract.CONTROL_PLAN] == contract.PLAN_TAKEN):
            page[contract.CONTROL_PLAN] = contract.PLAN_DONE

    def _walk(self, *, is_request: bool) -> None:
        self._always.boundary(now())
        if (plan := self._new_plan()) is not None:
            walker, self._walker = self._walker, None
            self._has_plan = self._had_plan = True
            if walker is not None:
                walker.close()
            self._is_request = is_request
            # Notes are written once the files are there.
            self._recorder.ensure_open()
            self._recorder.stop_timing_calls()
            self.training.hold()
            if not plan.get("task"):
                self._note_calls()
            self._walker = self._take_up(plan)
        if self._walker is None:
            self._look_at_loss()
            if self._losses is not None:
                self._losses.look(self.training.updates)
            return
        delay_ns = self._recorder.local.me.delay_ns()
        delay_ns = -1 if delay_ns is None else delay_ns
        waited_ns = delay_ns - self._delay_ns if min(delay_ns, self._delay_ns) >= 0 else -1
        at_ns = now()
        samples = self.training.samples_found() if self._samples < 0 else self._samples
        if not self._walker.boundary(at_ns, samples, waited_ns):
            self._say_done()
        self._samples, self._delay_ns = -1, delay_ns

    def _note_calls(self) -> None:
        """What levers change may be arguments of the call that has made something: this is written down once its plan is there."""
        made = self._recorder.shared(MadeCalls)
        calls, of_trainer = made.of(self.training.loader), made.of_trainer()
        of_optimizer = made.of_optimizers(self.training.optimizers)
        if calls or of_optimizer or of_trainer:
            of_loader = {"calls": calls, "loader_place": self.training.place}
            self._recorder.note({"kind": "made", **of_loader, OPTIMIZER: of_optimizer, TRAINER: of_trainer})

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
            if self._is_finite and not finite and not self._had_plan:
                # Said before a plan too: a script that ends without one is not to be started again, for a lever would be blamed then.
                self._recorder.ensure_open()
                self._recorder.health(LOSS_NOT_FINITE)
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
        self._number, self._place = number, find_local_rank(self._recorder.framework)
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
        is_asynchronous = bool(self._recorder.framework.facts().get("asynchronous"))
        if self._place is None:
            walks = DrainedBlocks if is_asynchronous else Blocks
            return walks(self._recorder, self.training, plan, is_finite=self._is_finite)
        ranks = Ranks(self._recorder.page.bytes, self._place, self._number)
        return InStep(
            self._recorder,
            self.training,
            plan,
            ranks,
            is_finite=self._is_finite,
            refused=ELSEWHERE if not self._place.is_whole else ASYNCHRONOUS if is_asynchronous else None,
            is_mine=self._is_mine,
        )


def switch_of(recorder: Recorder) -> Switch | None:
    """The one of this process; None in runs that were asked for no lever."""
    return recorder.shared(Switch) if recorder.experiment or recorder.levers else None
