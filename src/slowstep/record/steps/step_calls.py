"""Times calls in a few gaps after updates and in a few bodies of steps, and counts lines in one or two bodies, or in a gap.

A gap ends with the receipt of the next batch (in a loop that is not fed: with the first forward), a body with the end of the update: at
these instants the training thread is ours for a moment anyway, so a step in which nothing is timed pays for two comparisons.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Final, Protocol

from slowstep.record.framework import Framework
from slowstep.record.recorder import now
from slowstep.record.timing.call_times import CallTimes, others_profile
from slowstep.record.timing.line_counts import LineCounts
from slowstep.record.timing.line_times import LineTimes
from slowstep.record.timing.modes import PYTHON_MODES, python_modes
from slowstep.record.timing.turns import UpdateTurn, UpdateTurns
from slowstep.record.writing.format import MODES, UNTIMED_COMPILED, UNTIMED_THREADS
from slowstep.record.writing.threads import ThreadState

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# Of the time, in stretches that are timed. Of the case study's step a timed body takes 1.05 times as long and a timed gap, where built-in
# functions are timed too, 1.65 times (CPU time, Python 3.11); all in Python, 2 and 3 times: a thousandth and a half of the time at most.
BODY_SHARE: Final = 0.002
GAP_SHARE: Final = 0.001
# The first steps are not like the others: memory is laid out, algorithms are chosen.
FIRST: Final = 10
# Lines are counted once this many bodies have told which functions are worth it, and once more when many have.
_LINES_AFTER: Final = (2, 12)
# Without a loader lines are counted in one gap, too: whether what makes the next input is a loop in Python, or one operation.
_GAP_LINES_AFTER: Final = 2
# So many batches in a row, each looked at after another update, are a loop that is fed.
_MOST_BATCHES: Final = 20
# Updates in a row with no receipt between them, after which they are looked at one by one only once there is one: a loop without a loader
# has no receipts, and to look at each update took 12 us of its step.
_MOST_IN_VAIN: Final = 100
# The training's thread, and our own sampler's.
_THREADS: Final = 2
_LOOK_EVERY_NS: Final = 500_000_000


def mixes_threads() -> bool:
    """Whether the profiler would take other threads' calls for this one's: from Python 3.12 on it hears of those of all threads."""
    return sys.version_info >= (3, 12) and threading.active_count() > _THREADS


class Looked(Protocol):
    """An optimizer whose next update is looked at if it ends at `due_ns` or later."""

    due_ns: int


class StepCalls:
    """What is timed in the steps of this process, by one thread at a time."""

    def __init__(self, recorder: Recorder, framework: Framework) -> None:
        self._recorder, self._framework = recorder, framework
        self._gap = CallTimes("gap", recorder.note, share=GAP_SHARE, builtins=True, first=FIRST)
        self._body = CallTimes("body", recorder.note, share=BODY_SHARE, first=FIRST)
        self._gap_lines = LineTimes(recorder.note)
        # Loops that ask for the next batch inside a body make it there, which is no work of the body's.
        local = recorder.local
        self._lines = LineCounts(recorder.note, lambda: local.me.making is not None, framework, backwards=lambda: local.me.backwards)
        self._gap_counts = LineCounts(recorder.note, lambda: False, framework, of="gap")
        self._clear()
        recorder.forgetters.append(self._forget)
        # What is still timed must not outlive the hooks that would end it.
        recorder.undos.append(self.abandon)
        recorder.call_timers.append(self.abandon)

    def _clear(self) -> None:
        self._thread = self._look_ns = self._left = self._waits = self._batches = self._delay_ns = self._in_vain = 0
        # The optimizer whose updates are not looked at one by one until there is a receipt.
        self._unlooked: Looked | None = None
        self._compilations: int | None = None
        self._turns: UpdateTurns | None = None
        self._is_apart = False
        self._withheld: set[str] = set()

    def _forget(self) -> None:
        self._gap.forget()
        self._gap_lines.forget()
        self._gap_counts.forget()
        self._body.forget()
        self._lines.forget()
        self._clear()

    def updated(self, me: ThreadState, at_ns: int, place: UpdateTurn = UpdateTurn.LAST, of: Looked | None = None) -> bool:
        """An update `of` an optimizer has ended: end the body that was timed, and see whether the next gap or body is.

        `place` tells where a step ends that is not fed. Returns whether something is timed: then this is to be called at the very next
        update of the same optimizer.
        """
        if me.fed:
            place = UpdateTurn.LAST
        self._is_apart = self._is_apart or place is UpdateTurn.APART
        if self._is_apart and not me.fed:
            # Updates of each now and then are as many: that ends no step either.
            self.abandon()
            return False
        if self._thread and not (place is UpdateTurn.LAST and self._end(me, at_ns)):
            # It goes on, where it is this thread's, to the last update for this batch.
            return self._thread == me.thread and self._unlooked is None
        if not self._recorder.live[0] or not self._recorder.level:
            return False
        if at_ns >= self._look_ns:
            self._look(at_ns)
        if place is UpdateTurn.INSIDE:
            return False
        if self._turns is not None and not self._turns.updated(me):
            return self._turns.is_asking
        # In a loop that is not fed what is after the update and what makes the next input are one gap, distinguished by its lines.
        gap, body = self._turns is None and self._is_gap_due(me, at_ns), self._body.is_due(at_ns) or self._wants_lines()
        if (gap or body) and self._may_time(only_calls_of_a_gap=gap and self._are_calls_timed(me) and not self._wants_gap_counts(me)):
            self._thread, self._waits, me.when_received = me.thread, me.waits, self._received
            # The very next receipt is to be noticed, however short batches take.
            me.quick = None
            if gap and not self._begin_gap(me):
                self._release(me)
        if not gap and self._in_vain >= _MOST_IN_VAIN and self._thread == me.thread:
            self._unlooked = of
        return self._thread == me.thread and self._unlooked is None

    def _may_time(self, *, only_calls_of_a_gap: bool) -> bool:
        """Whether that can be done now; what forbids it is noted once: what was never timed is not known to be nothing."""
        # Compiled code does not notice the profiler, which is in C, but what counts lines: a function in Python runs at each of them. And
        # without lines the calls in a body say little: a loop in Python is not distinguished from an operation.
        is_withheld = self._framework.has_compiled() and not only_calls_of_a_gap
        why = UNTIMED_COMPILED if is_withheld else UNTIMED_THREADS if mixes_threads() else None
        if why is not None and why not in self._withheld:
            self._withheld.add(why)
            self._recorder.note({"kind": "untimed", "why": why})
        return why is None

    def _begin_gap(self, me: ThreadState) -> bool:
        if not self._are_calls_timed(me):
            self._delay_ns = me.delay_ns() or 0
            return self._gap_lines.begin(sys._getframe(2))
        if not self._wants_gap_counts(me):
            self._compilations = self._framework.compilations()
            return self._gap.enable(now())
        self._gap_counts.begin(self._gap.entries(), self._gap.wall_s)
        return True

    def _are_calls_timed(self, me: ThreadState) -> bool:
        return me.fed or self._gap_lines.are_known

    def _is_gap_due(self, me: ThreadState, at_ns: int) -> bool:
        if not self._are_calls_timed(me):
            return self._gap_lines.is_due()
        return self._gap.is_due(at_ns) or self._wants_gap_counts(me)

    def _wants_gap_counts(self, me: ThreadState) -> bool:
        return not (me.fed or self._gap_counts.stretches) and self._gap.stretches >= _GAP_LINES_AFTER

    def _received(self, me: ThreadState) -> None:
        """A batch is there: end the gap that was timed; where none was, the body's turn begins. Raises nothing."""
        me.when_received, self._in_vain = None, 0
        if self._unlooked is not None:
            self._unlooked.due_ns, self._unlooked = 0, None
        try:
            if self._thread == me.thread and not (me.unfed and me.waits > self._waits):
                self._turn_to_body(me, now())
            elif self._thread == me.thread:
                self._received_for_several(me)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def _received_for_several(self, me: ThreadState) -> None:
        """A batch that serves several updates: to wait for it is in few gaps, and the model's body does not begin yet."""
        self._waits, self._batches = me.waits, self._batches + 1
        if self._gap.running or self._gap_lines.running or self._gap_counts.running:
            if self._gap.running:
                self._gap.end(now(), keep=False)
            self._gap_lines.drop()
            if self._gap_counts.running:
                self._gap_counts.end(keep=False)
            self._thread = 0
        else:
            me.when_received = self._received
        # What was seen of the first updates was not so: each has its batch after all.
        me.unfed = self._batches < _MOST_BATCHES

    def _turn_to_body(self, me: ThreadState, at_ns: int) -> None:
        self._batches = 0
        if self._gap.running:
            # Compiling is done once, and by no function of the script's.
            self._gap.end(at_ns, keep=self._compilations == self._framework.compilations())
            self._thread = 0
        elif self._gap_lines.running:
            self._gap_lines.end(at_ns, waited_ns=(me.delay_ns() or 0) - self._delay_ns)
            self._thread = 0
        elif self._gap_counts.running:
            self._gap_counts.end()
            self._thread = 0
        elif self._wants_lines():
            self._lines.begin(self._body.entries(), self._body.wall_s)
        elif not self._body.enable(at_ns):
            self._thread = 0
        self._left = 1 if self._turns is None else self._turns.of_a_batch

    def _wants_lines(self) -> bool:
        done = self._lines.stretches
        return done < len(_LINES_AFTER) and self._body.stretches >= _LINES_AFTER[done]

    def _end(self, me: ThreadState, at_ns: int) -> bool:
        """End what is timed on this thread; whether another stretch may begin."""
        if self._thread != me.thread:
            return False
        if (self._body.running or self._lines.running) and self._left > 1:
            self._left -= 1
            return False
        if self._gap.running:
            # Two updates for one batch: gaps hold the second optimizer's work, and bodies end with the last one's.
            self._gap.end(at_ns, keep=False)
            self._body.discard()
            self._turns = UpdateTurns()
        elif self._gap_lines.running:
            # No forward of a module since: its lines hold the whole step.
            self._gap_lines.end(at_ns, keep=False)
        elif self._gap_counts.running:
            self._gap_counts.end(keep=False)
        elif self._lines.running:
            self._lines.end()
        elif self._body.running:
            self._body.end(at_ns)
        else:
            self._in_vain += 1
        self._release(me)
        return True

    def _release(self, me: ThreadState) -> None:
        self._thread, me.when_received, self._unlooked = 0, None, None

    def _look(self, at_ns: int) -> None:
        self._look_ns = at_ns + _LOOK_EVERY_NS
        self._recorder.event(MODES, at_ns, at_ns, python_modes(traced=sys.gettrace() is not None, profiled=others_profile()), PYTHON_MODES)

    def abandon(self) -> None:
        """Stop timing at once, and keep nothing of it; a no-op on any other thread than the one that is timed. Raises nothing."""
        me = self._recorder.local.me
        if self._thread != me.thread:
            return
        try:
            for calls in (self._gap, self._body):
                if calls.running:
                    calls.end(now(), keep=False)
            if self._gap_lines.running:
                self._gap_lines.end(now(), keep=False)
            if self._gap_counts.running:
                self._gap_counts.end(keep=False)
            if self._lines.running:
                self._lines.end()
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)
        self._release(me)
