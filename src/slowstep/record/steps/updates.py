"""Counts the calls of every optimizer, and does what is due at the end of a step."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Protocol

from slowstep.record.framework import Framework
from slowstep.record.recorder import now
from slowstep.record.steps.by_hand import ByHand
from slowstep.record.steps.cpu_marks import SPARSE_NS, build_marks
from slowstep.record.steps.held_parameters import HeldParameters, ParameterHolders
from slowstep.record.steps.step_calls import StepCalls
from slowstep.record.steps.updating import UpdatingFrameworks
from slowstep.record.timing.callers import call_path, training_frame
from slowstep.record.timing.inner_loops import loops_around, loops_beside
from slowstep.record.timing.turns import UpdateTurn, turn_of
from slowstep.record.writing.format import SKIPPED, UPDATE

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder
    from slowstep.record.writing.threads import ThreadState

# Bookkeeping takes some 15 us, more than recording a step of a tenth of a millisecond: of such steps it is done when a mark is due. In
# steps that are always marked it is done every time.
_DUE_EVERY_NS: Final = SPARSE_NS
# More updates than fit into that time.
_STEPS_AT_A_TIME: Final = 1000
# A loop that has not asked for a batch for each update from the first to this one has no loader, or makes something of each batch for
# every update. What was asked for before may have been a validation's, or what an agent begins with.
_LOOK_FOR_LOADER_AT: Final = 3
# A loop that asks for its next batch before the update has asked for one more. Beyond that a step reads several, or validates.
_ONE_AHEAD: Final = 1

StepHook = Callable[[Any, Any, Any], None]


class Optimizer:
    """What is known of one optimizer; `key` is its id() while it lives, then 0."""

    __slots__ = ("before", "begun_ns", "behind", "count", "count_when_due", "due_ns", "key", "last_due_ns", "number", "ref")

    def __init__(self, number: int, key: int) -> None:
        self.number, self.key = number, key
        self.ref: weakref.ref[Any] | None = None
        self.count = self.begun_ns = 0
        # When bookkeeping is due, and when it was done last.
        self.due_ns = self.last_due_ns = self.count_when_due = 0
        # Updates before its first; and those of them that count as its training's, as it follows the optimizers that made them.
        self.behind = self.before = 0

    @property
    def updates(self) -> int:
        """Its calls, with those of the optimizers that it follows."""
        return self.before + self.count


_NOBODY: Final = Optimizer(0, 0)


class Capturing(Protocol):
    """A profiler of the framework's own that is to look at a few updates."""

    def ask(self) -> None:
        """Note that a capture is wanted."""

    def near(self, updates: int) -> bool:
        """Whether every update must be told from now on."""

    def updated(self, updates: int) -> None:
        """So many updates have ended, the last of them just now, on this thread."""

    def abandon(self) -> None:
        """The recording has ended."""


class Updates:
    """The optimizers of a framework in this process; `capture` is told of their updates."""

    def __init__(self, recorder: Recorder, framework: Framework, capture: Capturing | None = None) -> None:
        self._recorder, self._framework, self._capture = recorder, framework, capture
        self._optimizers: dict[int, Optimizer] = {}
        self._last = [_NOBODY]
        self._frameworks = recorder.shared(UpdatingFrameworks)
        self._number = self._most = self._stepped = 0
        self._is_by_hand = False
        self._optimizers_called = 0
        self._held = HeldParameters(framework, recorder.shared(ParameterHolders))
        # That of the last bookkeeping, and whether one was called again after another one had been.
        self._due = _NOBODY
        self._in_turns = False
        _, self._mark = build_marks(recorder)
        self._calls = StepCalls(recorder, framework)
        recorder.forgetters.append(self._forget)
        recorder.undos.append(self._held.forget)

    def _forget(self) -> None:
        self._optimizers.clear()
        self._last[0] = _NOBODY
        self._number = self._most = self._stepped = 0
        self._is_by_hand = self._in_turns = False
        self._due = _NOBODY
        self._optimizers_called = 0
        self._held.forget()

    def build_hooks(self) -> tuple[StepHook, StepHook]:
        """The hooks to be called before and after any optimizer's `step`."""
        known, event, do_what_is_due, fault, clock = self.known, self._recorder.event, self._do_what_is_due, self._recorder.fault, now
        local, write_ended = self._recorder.local, self._recorder.write_ended
        # The optimizer of the last call, which is nearly always that of the next.
        last = self._last

        def before(optimizer: Any, args: Any, kwargs: Any) -> None:
            state = last[0]
            if state.key != id(optimizer):
                try:
                    state = last[0] = known(optimizer)
                except Exception as error:  # the border: counted, and never raised into the training
                    fault(error)
                    return
            state.begun_ns = clock()

        def after(optimizer: Any, args: Any, kwargs: Any) -> None:
            t1 = clock()
            state = last[0]
            if state.key != id(optimizer):
                state = self._optimizers.get(id(optimizer), _NOBODY)
            if t0 := state.begun_ns:
                me = local.me
                held = me.held
                if held is None:
                    event(UPDATE, t0, t1, state.number, 0, 0, 0, 0, me.thread)
                else:
                    me.ended.append((held, me.backward, state.number, t0, t1))
                    me.held = me.backward = None
                    if t1 >= me.write_ns:
                        write_ended(me)
                state.begun_ns = 0
                state.count += 1
                if t1 >= state.due_ns:
                    do_what_is_due(state, t1)

        return before, after

    def build_by_hand(self, before: StepHook, after: StepHook) -> Callable[[ByHand], None]:
        """What is to be called after an update that no optimizer makes: it is recorded as one of no length."""

        def updated(optimizer: ByHand) -> None:
            before(optimizer, (), {})
            after(optimizer, (), {})

        return updated

    def skipped(self, optimizer: Any, t0: int, t1: int) -> None:
        """Record an update that was left out, for infinite gradients. Raises TypeError where the optimizer takes no weak references."""
        state = self.known(optimizer)
        self._recorder.event(UPDATE, t0, t1, state.number, 0, 0, SKIPPED)
        self._count(state, t1)

    def called(self, trainer: Any, t0: int, t1: int, updates: int = 1) -> None:
        """Record one call of what trains without an optimizer, in which so many updates were made: it is one step. Raises nothing."""
        try:
            state = self._optimizers.get(id(trainer)) or self.known(trainer)
            self._recorder.event(UPDATE, t0, t1, state.number, updates)
            # `_count`, without a call more in each step.
            state.count += 1
            if t1 >= state.due_ns:
                self._do_what_is_due(state, t1)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def _count(self, state: Optimizer, t1: int) -> None:
        state.count += 1
        if t1 >= state.due_ns:
            self._do_what_is_due(state, t1)

    def count(self, optimizer: Any) -> int:
        """How many calls of an optimizer there have been."""
        state = self._optimizers.get(id(optimizer))
        return 0 if state is None else state.count

    def known(self, optimizer: Any, frame: FrameType | None = None) -> Optimizer:
        """What is known of an optimizer; a new one is described in the notes, with where it is called: in `frame`, else where this is.

        Raises TypeError where it takes no weak references.
        """
        state = self._optimizers.get(id(optimizer))
        if state is not None:
            return state
        recorder, key, optimizers = self._recorder, id(optimizer), self._optimizers
        if self._is_by_hand and not isinstance(optimizer, ByHand):
            # What was taken for updates was none: the script has an optimizer after all.
            recorder.by_hand.clear()
            self._most = self._stepped = 0
        self._is_by_hand = isinstance(optimizer, ByHand)
        self._optimizers_called += not self._is_by_hand
        is_first, self._number = not self._number, self._frameworks.number()
        state = optimizers[key] = Optimizer(self._number, key)

        def forget(_: object) -> None:
            # An id() is used again once its object is gone: the entry goes with it.
            state.key = 0
            optimizers.pop(key, None)

        state.ref = weakref.ref(optimizer, forget)
        try:
            self._describe(optimizer, frame or sys._getframe(1), is_first=is_first)
        except Exception as error:
            # What is not known of it costs no update.
            recorder.fault(error)
        return state

    def _describe(self, optimizer: Any, called_in: FrameType, *, is_first: bool) -> None:
        recorder = self._recorder
        if not (recorder.live[0] and recorder.ensure_open()):
            return
        if is_first:
            self._frameworks.is_most(self._framework, 0)
            self.note_facts()
        if self._number == 1:
            # What was spent before, while a model was compiled, is no step's.
            recorder.write_cost()
            for callback in recorder.when_training:
                callback()
        if is_first and self._capture is not None:
            self._capture.ask()
        described = optimizer.describe() if isinstance(optimizer, ByHand) else self._framework.describe_optimizer(optimizer)
        held = {} if isinstance(optimizer, ByHand) else self._held.describe(optimizer, self._number)
        of = {"id": self._number, "framework": self._framework.name, "type": type(optimizer).__name__}
        recorder.note({"kind": "optimizer", **of, **described, **held})
        frame = training_frame(called_in)
        if frame is not None:
            recorder.note({"kind": "training_frame", "optimizer": self._number, **frame})
            recorder.note({"kind": "training_path", "optimizer": self._number, **call_path(called_in)})
            recorder.note({"kind": "loops", "optimizer": self._number, "functions": loops_beside(called_in)})
            around = loops_around(called_in)
            if around is not None:
                recorder.note({"kind": "loops_around", "optimizer": self._number, "functions": around})

    def is_any_known(self) -> bool:
        """Whether any optimizer was called, and what the framework says of itself was written."""
        return self._number > 0

    def note_facts(self) -> None:
        """Write what the framework says of itself; to be called again where that has changed."""
        framework = self._framework
        said = {"framework": framework.name, "optimizers": framework.has_optimizers, "losses": framework.tells_losses}
        self._recorder.note({"kind": "facts", **said, **self._facts()})

    def _facts(self) -> dict[str, Any]:
        try:
            return self._framework.facts()
        except Exception as error:  # it does not say: no reason to leave out what else there is to say and to do
            self._recorder.fault(error)
            return {}

    def _do_what_is_due(self, state: Optimizer, at_ns: int) -> None:
        """What need not be done in every step of a training whose steps are very short."""
        recorder = self._recorder
        me = recorder.local.me
        if not recorder.live[0]:
            self._calls.abandon()
            if self._capture is not None:
                self._capture.abandon()
            return
        try:
            if me.ended:
                # Steps are counted below, and must not be counted before they are written.
                recorder.write_ended(me)
            if self._due is not state or state.before != state.behind:
                self._follow(state)
            if not (state.last_due_ns and me.updates):
                recorder.trains(me)
            if not state.last_due_ns:
                recorder.watch()
            else:
                me.step_ns = (at_ns - state.last_due_ns) // max(state.count - state.count_when_due, 1)
            state.last_due_ns, state.count_when_due, state.due_ns = at_ns, state.count, at_ns + _DUE_EVERY_NS
            me.updates += 1
            if self._mark(me, at_ns) or me.updates < _LOOK_FOR_LOADER_AT or self._is_one_of_few(state):
                state.due_ns = 0
            self._look_for_loader(me, max(self._most, state.updates))
            if state.updates > self._most:
                self._most = state.updates
                self._tell_of_steps(state.updates, at_ns)
            if self._calls.updated(me, at_ns, self._place(state), state):
                state.due_ns = 0
        except Exception as error:  # the border: counted, and never raised into the training
            recorder.fault(error)

    def _look_for_loader(self, me: ThreadState, calls: int) -> None:
        """Whether a loader feeds the loop, and for how many updates, at its third; there have been so many calls.

        Where it asks for more batches than it makes updates and backward passes, forwards tell which of them it trains on.
        """
        if me.updates == 1:
            me.waits_ahead, me.backwards_ahead = me.waits - calls, me.backwards - calls
        if me.updates != _LOOK_FOR_LOADER_AT:
            return
        requests = me.waits - me.waits_ahead
        me.unfed = requests < calls
        is_told = not me.unfed and requests <= max(calls, me.backwards - me.backwards_ahead) + _ONE_AHEAD
        if not is_told and self._recorder.when_forwards_tell is not None:
            callback, self._recorder.when_forwards_tell = self._recorder.when_forwards_tell, None
            callback()

    def _tell_of_steps(self, updates: int, at_ns: int) -> None:
        """Only the busiest optimizer's calls are steps, with those of the optimizers that it follows: it has made so many."""
        if self._frameworks.is_most(self._framework, updates):
            self._recorder.step(updates - self._stepped)
            self._stepped = updates
            self._recorder.updated(updates, at_ns)
            if self._capture is not None:
                self._capture.updated(updates)

    def _follow(self, state: Optimizer) -> None:
        """Tell optimizers that follow one another from those that are called in turns: what came before the former is counted with them."""
        last, self._due = self._due, state
        if self._in_turns:
            return
        if last is not state and state.last_due_ns:
            self._in_turns = True
            known = list(self._optimizers.values())
            for each in known:
                each.before = each.behind = 0
            # This call is counted below.
            self._most = self._stepped = max(each.count - (each is state) for each in known)
            return
        if not state.last_due_ns:
            state.behind = self._most
        # One that is gone is called no more; of one that is still there a second call in a row tells, for a pair's second one has none.
        if last is state or not last.key:
            state.before = state.behind

    def _place(self, state: Optimizer) -> UpdateTurn:
        if self._optimizers_called <= 1:
            return UpdateTurn.LAST
        # A list: another thread may build an optimizer meanwhile.
        return turn_of(state.count, [each.count for each in list(self._optimizers.values())])

    def _is_one_of_few(self, state: Optimizer) -> bool:
        """Whether the recording is to end, or a capture to begin, within the next updates: then each of them counts."""
        steps = self._recorder.steps
        ending = steps is not None and state.updates + _STEPS_AT_A_TIME >= steps
        return ending or (self._capture is not None and self._capture.near(state.updates))
