"""Calls of jitted functions, told by JAX itself when they return: which of them trains, and whether the device has done what it was given.

A function trains whose results are what its next call is given: parameters, and the state of an optimizer. (Sums of a metric are single
numbers, and the state of a generator of random ones is no real number.) Of a call that has to compile, or has effects, JAX does not tell:
it is seen on its longer way. What `jax.pmap` maps is not seen.
"""

from __future__ import annotations

import functools
import inspect
import sys
import time
import weakref
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.jax.inside._by_hand import UpdatesByHand, Watch
from slowstep.frameworks.jax.inside._framework import FRAMEWORK
from slowstep.frameworks.jax.inside._leaves import arrays, is_array, leaves_of, may_be_trained
from slowstep.frameworks.jax.inside._operations import size_if_small
from slowstep.frameworks.jax.inside._post_hook import call_after_each
from slowstep.frameworks.jax.inside._retraced import RetracedFunctions
from slowstep.frameworks.jax.inside._smallest import Looking, Smallest
from slowstep.frameworks.jax.inside._trainings import Trained, Trainings
from slowstep.frameworks.jax.inside.gradients import Gradients
from slowstep.record.attributes import code_of, innermost
from slowstep.record.framework import told_by_others
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, Unfit, all_of, find, replace
from slowstep.record.recorder import now
from slowstep.record.steps.traced_operations import MOST_TRACES, UNBOUNDED, Traces, TraceSize
from slowstep.record.timing.tracebacks import PACKAGE, hide_own_frames

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# So many first calls of a function are looked at, to tell whether it takes what it gave; later those whose number is a power of two, with
# the one that follows each: a function may be called for nothing first.
_LOOKED_AT: Final = 8
# Places of calls that are kept; a program with more has most of its time elsewhere.
_MOST_PLACES: Final = 256
# One in so many calls is timed. What it writes is counted by itself as well: of calls that train the sum is an upper bound.
_CALLS_PER_TIMED: Final = 64
# What JAX takes to call us at all, beyond what we can time (jax 0.10.2, two cores of an Intel Xeon: an empty function, 0.4 to 0.7 us).
_CALLING_NS: Final = 600
# What is done after each single operation, with being called (measured likewise: additions in turns with and without us, 0.45 to 0.6 us).
_OPERATION_NS: Final = 500
# Whose functions do what a script calls by itself, operation by operation. optax jits some of its own.
_OWN: Final = ("jax", "jaxlib", "optax")
_LONGER_WAY: Final = "_run_python_pjit"


class _Jitted:
    """What is known of a function that is jitted; `given` are what its last call gave, while that is looked at."""

    __slots__ = (
        *("__weakref__", "at", "calls", "code", "given", "is_own", "name", "smallest"),
        *("measured", "sizes", "takes_gradients", "told_by", "traces", "trained", "watch"),
    )

    def __init__(self, function: Any, looking: Looking) -> None:
        self.calls, self.is_own, self.told_by = 0, _is_own(function), told_by_others(function, FRAMEWORK)
        self.name, self.takes_gradients = _name(function), False
        # What ends the updates of what it is given, where these are made beside what is jitted.
        self.watch: Watch | None = None
        self.given: dict[int, weakref.ref[Any]] = {}
        self.trained: Trained | None = None
        # What it was traced to, as long as it is not known to train.
        self.traces, self.sizes = Traces(FRAMEWORK.name), list[TraceSize]()
        self.measured: weakref.ref[Any] | None = None
        self.smallest = Smallest(looking)
        # Where it was called last, and at which instruction.
        self.code: CodeType | None = None
        self.at = 0

    def is_told(self) -> bool:
        """Whether another framework tells of its steps."""
        return any(tells() for tells in self.told_by)

    def is_measured(self, jaxpr: Any) -> bool:
        """Whether this very one was met last; what has effects comes with the same each time."""
        inner = jaxpr.jaxpr
        if self.measured is not None and self.measured() is inner:
            return True
        try:
            self.measured = weakref.ref(inner)
        except TypeError:
            self.measured = None
        return False

    def note_sizes(self, recorder: Recorder) -> None:
        """Of a function that trains."""
        for size in self.sizes:
            self.traces.note(recorder, functools.partial(_as_it_is, size))
        self.sizes.clear()

    def gave(self, array: Any) -> bool:
        """Whether its last call gave this very array: an id() alone is used again at once."""
        known = self.given.get(id(array))
        return known is not None and known() is array


class JittedCalls:
    """What is to be called after each of them; `is_idle` asks whether the device has done them all."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._trainings = recorder.shared(Trainings)
        self._known: weakref.WeakKeyDictionary[Any, _Jitted] = weakref.WeakKeyDictionary()
        # The same by the id() of what JAX has made of a function, each with what takes it out when that is gone.
        self._jitted: dict[int, tuple[weakref.ref[Any], _Jitted]] = {}
        # By the id() of the code, which is held: to hash it takes longer than all else here.
        self._places: dict[tuple[int, int], CodeType] = {}
        # The result of the last call that can be asked: itself where it is small, else a reference that does not keep it.
        self._last: Any = None
        self._calls = self._operations = 0
        self._looking = Looking()
        self._gradients, self._by_hand = recorder.shared(Gradients), UpdatesByHand(recorder)
        self._retraced = RetracedFunctions(recorder)
        # Of single operations nothing is asked but their last result: by id(), each with what takes it out when it is gone. While arrays
        # are followed `_passed` is another one, without any.
        self._single: dict[int, weakref.ref[Any]] = {}
        self._passed = self._single
        # Those that end updates somewhere, likewise.
        self._ends: dict[int, tuple[weakref.ref[Any], list[Watch]]] = {}
        recorder.forgetters.append(self.forget)

    def forget(self) -> None:
        """Know nothing, and hold nothing of the script's."""
        self._known.clear()
        self._jitted.clear()
        self._places.clear()
        self._single.clear()
        self._ends.clear()
        self._by_hand.forget()
        self._passed, self._last = self._single, None

    def returned(self, jitted: Any, args: Any, kwargs: Any, result: Any) -> None:
        """A call has returned, and the device may be working on it. Raises nothing."""
        if id(jitted) in self._passed:
            # There may be hundreds in a step, of some microseconds each.
            try:
                self._last = weakref.ref(result)
            except TypeError:
                # It gave several.
                self._last = None
            self._operations += 1
            if self._operations == _CALLS_PER_TIMED:
                self._count_operations()
            return
        if not self._recorder.live[0]:
            return
        try:
            if self._ends and (ends := self._ends.get(id(jitted))) is not None:
                self._ended(ends[1], result)
                return
            ended_ns = now()
            self._calls += 1
            is_timed = not self._calls % _CALLS_PER_TIMED
            # By the thread's clock: a wait for a core in one call would stand for that in 64.
            began_ns = time.thread_time_ns() if is_timed else 0
            entry = self._jitted.get(id(jitted))
            known = self._known_of(jitted) if entry is None else entry[1]
            if known.is_own:
                self._operated(jitted, (args, kwargs), result)
                self._recorder.spent_ns += now() - ended_ns
                return
            trained = self._called(known, (args, kwargs), result, ended_ns, ended_ns)
            if known.watch is not None or self._passed is not self._single or (known.takes_gradients and known.trained is None):
                self._follow(jitted, known, (args, kwargs), result)
            frame = sys._getframe(1)
            if frame.f_code is not known.code or frame.f_lasti != known.at:
                self._keep_place(known, frame)
            if is_timed:
                self._recorder.spent_ns += _CALLS_PER_TIMED * (time.thread_time_ns() - began_ns + _CALLING_NS)
            if trained is not None and self._trainings.switch is not None:
                self._trainings.tell_switch(trained, self._last)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def _operated(self, operation: Any, given: Any, result: Any) -> None:
        """One of JAX' own functions was called."""
        self._last = weakref.ref(result) if is_array(result) else None
        key, function = id(operation), getattr(operation, "__wrapped__", operation)
        if self._by_hand.is_following:
            self._by_hand.operated(function, given, result, sys._getframe(1))
            self._pass_or_follow()
        elif (watches := self._by_hand.watches(function)) is not None:
            self._ends[key] = _forgotten_with(operation, self._ends), watches
            self._ended(watches, result)
        else:
            self._single[key] = _forgotten_with(operation, self._single)

    def _ended(self, watches: list[Watch], result: Any) -> None:
        """An operation that ends updates was called."""
        self._last = weakref.ref(result)
        self._operations += 1
        for watch in watches:
            watch.calls += 1
            if watch.calls == watch.index:
                self._by_hand.ended(watch, result)

    def _follow(self, jitted: Any, known: _Jitted, given: Any, result: Any) -> None:
        """What a function of the script's has to do with updates that are made beside it."""
        if known.watch is not None:
            known.watch.calls = 0
        elif known.trained is not None or known.is_told():
            self._by_hand.needs_not(known)
            self._pass_or_follow()
        elif known.takes_gradients:
            may_begin = _is_looked_at(known.calls)
            known.watch = self._by_hand.gave_gradients(known, known.name, given, result, may_begin=may_begin)
            self._pass_or_follow()
        elif self._by_hand.is_following:
            self._by_hand.operated(getattr(jitted, "__wrapped__", jitted), given, result, sys._getframe(1))
            self._pass_or_follow()

    def _pass_or_follow(self) -> None:
        """Have single operations told of, each, while arrays are followed."""
        if self._by_hand.is_following:
            self._passed, self._ends = {}, {}
        elif self._passed is not self._single:
            # What ends an update was passed before.
            self._single.clear()
            self._passed = self._single

    def _count_operations(self) -> None:
        self._recorder.spent_ns += self._operations * _OPERATION_NS
        self._operations = 0

    def returned_late(self, function: Any, given: Any, result: Any, began_ns: int, traced: Any) -> None:
        """A call has returned that compiled, or has effects; or it was traced, as a part of another one; `traced` is what JAX keeps of that
        (None where it shows nothing). Raises nothing.
        """
        ended_ns = now()
        try:
            known = self._meet(function)
            if not self._recorder.live[0] or not all(map(is_array, leaves_of(result))):
                return
            # What is called was traced just before, with all that it calls.
            known.takes_gradients |= self._gradients.were_taken()
            if not known.is_own:
                self._measure(known, traced)
                self._retraced.called(known, function, given, traced)
                trained = self._called(known, given, result, began_ns, ended_ns)
                if trained is not None:
                    self._trainings.tell_switch(trained, self._last)
                self._follow(function, known, given, result)
            elif self._by_hand.is_following:
                self._by_hand.operated(function, given, result, sys._getframe(1))
                self._pass_or_follow()
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def _measure(self, known: _Jitted, traced: Any) -> None:
        """Note what a call of it runs, at once or when it is known to train. Raises nothing: the call is a step, whatever it runs."""
        began_ns, number = now(), known.traces.noted + len(known.sizes)
        try:
            jaxpr = getattr(traced, "params", {}).get("jaxpr") if known.takes_gradients and number <= MOST_TRACES else None
            if jaxpr is not None and not known.is_measured(jaxpr):
                # Of one too many only that is noted.
                known.sizes.append(size_if_small(jaxpr) if number < MOST_TRACES else UNBOUNDED)
            if known.trained is not None or known.is_told():
                known.note_sizes(self._recorder)
        except Exception as error:  # the border: counted, and never raised into the training
            known.sizes = [UNBOUNDED]
            self._recorder.fault(error)
        if number:
            self._recorder.spent_ns += now() - began_ns
        else:
            self._recorder.once_ns += now() - began_ns

    def is_idle(self, code: CodeType, at: int) -> bool | None:
        """Whether the device has nothing to do, by where the thread stands that calls; None where that is not known."""
        if (id(code), at) in self._places:
            # It is just being given something, and small things are computed in the call itself.
            return False
        last = self._last
        if isinstance(last, weakref.ref):
            last = last()
        if last is None or not is_array(last) or last.is_deleted():
            return None
        return bool(last.is_ready())

    def _meet(self, function: Any) -> _Jitted:
        known = self._known.get(function)
        if known is None:
            known = self._known[function] = _Jitted(function, self._looking)
        return known

    def _known_of(self, jitted: Any) -> _Jitted:
        """What is known of the function of which JAX has made this, from now on by that."""
        known = self._meet(getattr(jitted, "__wrapped__", jitted))
        self._jitted[id(jitted)] = _forgotten_with(jitted, self._jitted), known
        return known

    def _called(self, known: _Jitted, given: Any, result: Any, began_ns: int, ended_ns: int) -> Trained | None:
        """Take note of a call. Returns what trained in it."""
        # What waits for an update must know what to ask.
        self._last = known.smallest.of(result, at_any_cost=self._trainings.switch is not None)
        known.calls += 1
        if known.told_by and known.is_told():
            return None
        if known.trained is None and _is_looked_at(known.calls):
            self._look(known, given, result)
        if known.trained is not None:
            self._trainings.called(known.trained, began_ns, ended_ns)
        return known.trained

    def _keep_place(self, known: _Jitted, frame: Any) -> None:
        """Of the call itself: below it may be what looks for NaN."""
        while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
            frame = frame.f_back
        if frame is None:
            return
        known.code, known.at = frame.f_code, frame.f_lasti
        place = id(frame.f_code), frame.f_lasti
        if place not in self._places and len(self._places) < _MOST_PLACES:
            self._places[place] = frame.f_code

    def _look(self, known: _Jitted, given: Any, result: Any) -> None:
        gave = arrays(result)
        if any(known.gave(array) and may_be_trained(array) for array in arrays(given)):
            known.trained, known.given = self._trainings.meet(known.name, gave), {}
            self._trainings.hands_on(known.trained)
            known.note_sizes(self._recorder)
        else:
            known.given = {id(array): weakref.ref(array) for array in gave} if _is_looked_at(known.calls + 1) else {}


def _as_it_is(size: TraceSize) -> TraceSize:
    return size


def _forgotten_with(operation: Any, known: dict[int, Any]) -> weakref.ref[Any]:
    """A reference to what is known by its id(), which is used again once it is gone."""
    key = id(operation)
    return weakref.ref(operation, lambda _: known.pop(key, None))


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _is_looked_at(call: int) -> bool:
    """Whether the call of this number is."""
    return call <= _LOOKED_AT or call & (call - 1) == 0 or (call - 1) & (call - 2) == 0


def _is_own(function: Any) -> bool:
    """Whether it is one of JAX's own, as each operation is that a script calls by itself."""
    # `jax.jit(jax.grad(loss))` is the script's, though the gradient's function is JAX' own.
    code = code_of(innermost(function))
    return code is not None and any(f"-packages/{package}/" in code.co_filename for package in _OWN)


def install(recorder: Recorder) -> Undo:
    """Be told. Raises Unfit where this version of JAX does not tell."""
    calls = JittedCalls(recorder)
    undos: list[Undo] = [calls.forget, call_after_each(calls.returned)]
    recorder.device_probes.append(calls.is_idle)
    undos.append(lambda: recorder.device_probes.remove(calls.is_idle))
    try:
        undos.append(_on_longer_way(calls))
    except Unfit:
        # Other versions have another one: there only steps are lost that compile.
        recorder.introduce({"kind": "hook", "name": "jax_jit_misses", "state": "off", "reason": f"JAX has no {_LONGER_WAY} that fits"})
    return all_of(undos)


def _on_longer_way(calls: JittedCalls) -> Undo:
    """Have calls seen that compile, or have effects. Raises Unfit where this version of JAX has no such function."""
    module = sys.modules.get("jax._src.pjit")
    original: Callable[..., Any] = find(module, _LONGER_WAY)
    try:
        names = list(inspect.signature(original).parameters)
        function_at, args_at, kwargs_at = (names.index(name) for name in ("fun", "args", "kwargs"))
        traced_at = names.index("p") if "p" in names else None
    except (TypeError, ValueError):
        raise Unfit(f"{_LONGER_WAY} takes something else") from None

    @functools.wraps(original)
    def seen(*args: Any, **kwargs: Any) -> Any:
        began_ns = now()
        try:
            told = original(*args, **kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        if len(args) == len(names) and isinstance(told, tuple) and told:
            traced = None if traced_at is None else args[traced_at]
            calls.returned_late(args[function_at], (args[args_at], args[kwargs_at]), told[0], began_ns, traced)
        return told

    return replace(module, _LONGER_WAY, seen)


HOOK = Hook(name="jax_jit", module="jax", install=install)
