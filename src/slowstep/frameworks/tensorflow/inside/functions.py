"""Calls of tf.functions: of a loop that is the script's own a step is a call of one that trains.

One trains in whose trace gradients of trainable variables are computed: of what it calls Python sees nothing later. Gradients that are
computed eagerly are seen each time, and whose they are the optimizer tells that is called with them.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.tensorflow.inside._capture import tensorflow_capture
from slowstep.frameworks.tensorflow.inside._framework import FRAMEWORK
from slowstep.frameworks.tensorflow.inside._operations import size_of
from slowstep.frameworks.tensorflow.inside._results import wait_for
from slowstep.record.experiment.switch import switch_of
from slowstep.record.framework import always, told_by_others
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, all_of, argument, find, replace
from slowstep.record.recorder import now
from slowstep.record.steps.traced_operations import Traces
from slowstep.record.steps.updates import Updates
from slowstep.record.timing.tracebacks import hide_own_frames
from slowstep.record.writing.format import BACKWARD

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_FUNCTIONS: Final = "tensorflow.python.eager.polymorphic_function.polymorphic_function"
_TAPES: Final = "tensorflow.python.eager.backprop"


class OpenCalls(threading.local):
    """The outermost tf.function that is called on this thread; None where none is."""

    outermost: Any = None


class TracedFunctions:
    """Which functions train, and their calls."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder, self._updates = recorder, Updates(recorder, FRAMEWORK, recorder.shared(tensorflow_capture))
        self._switch = switch_of(recorder)
        self._calls = OpenCalls()
        self._trained: weakref.WeakKeyDictionary[Any, TrainedFunction] = weakref.WeakKeyDictionary()
        self._fetching: weakref.WeakSet[Any] = weakref.WeakSet()
        recorder.forgetters.append(self.forget)

    def forget(self) -> None:
        """Know none, as in a forked child."""
        self._trained.clear()
        self._fetching.clear()
        FRAMEWORK.waits_inside = False

    def note_uncounted_fetch(self) -> None:
        """What is traced just now fetches a batch, and nothing will tell how long that is waited for. Raises nothing."""
        try:
            if self._calls.outermost is not None:
                self._fetching.add(self._calls.outermost)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def trains(self, sources: Any) -> None:
        """What is traced just now computes gradients of these. Raises nothing."""
        function = self._calls.outermost
        try:
            if function is None or function in self._trained:
                return
            # Gradients of the input are an explanation's, or an attack's.
            trained = [each for each in sys.modules["tensorflow"].nest.flatten(sources) if getattr(each, "trainable", False)]
            if trained:
                self._trained[function] = TrainedFunction(function.python_function, trained)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def within_this_call(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, for another thread that traces it while this one waits; as it is where no tf.function is called."""
        calls, outermost = self._calls, self._calls.outermost
        if outermost is None:
            return function

        @functools.wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            before, calls.outermost = calls.outermost, outermost
            try:
                return function(*args, **kwargs)
            except BaseException:  # passed on, without our frames in the traceback
                hide_own_frames()
                raise
            finally:
                calls.outermost = before

        return within

    @property
    def called_just_now(self) -> Any:
        """The outermost tf.function that this thread calls; None where it calls none."""
        return self._calls.outermost

    def traced(self, concrete: Any) -> None:
        """What is called just now was traced, as this: say how many operations it runs, where it trains. Raises nothing."""
        try:
            known = None if self._calls.outermost is None else self._trained.get(self._calls.outermost)
            if known is not None:
                known.traces.note(self._recorder, lambda: size_of(concrete))
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def called(self, original: Any) -> Any:
        """What the call of a tf.function is replaced by."""
        calls, live, trained = self._calls, self._recorder.live, self._trained

        @functools.wraps(original)
        def __call__(function: Any, /, *args: Any, **kwargs: Any) -> Any:
            if calls.outermost is not None or not live[0]:
                return original(function, *args, **kwargs)
            calls.outermost = function
            began_ns = now()
            try:
                result = original(function, *args, **kwargs)
            except BaseException:  # passed on, without our frames in the traceback
                hide_own_frames()
                raise
            finally:
                calls.outermost = None
            known = trained.get(function)
            if known is not None and not known.is_always_told_by_others and not self._is_told_by_others(known):
                ended_ns = now()
                self._tell_of_waits(function)
                self._updates.called(known, began_ns, ended_ns)
                self._tell_switch(known, result)
            return result

        return __call__

    def _is_told_by_others(self, known: TrainedFunction) -> bool:
        try:
            return any(tells() for tells in known.told_by)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)
            return False

    def _tell_of_waits(self, function: Any) -> None:
        """Say once that a function which trains waits inside."""
        try:
            if not FRAMEWORK.waits_inside and function in self._fetching:
                FRAMEWORK.waits_inside = True
                if self._updates.is_any_known():
                    self._updates.note_facts()
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def close(self) -> None:
        """Undo what a lever has changed for all of the training."""
        FRAMEWORK.waits_inside = False
        if self._switch is not None:
            self._switch.close()

    def _tell_switch(self, trained: TrainedFunction, result: Any) -> None:
        if self._switch is None:
            return
        try:
            self._switch.updated(trained, wait_for(result))
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)


class TrainedFunction:
    """What stands for a function that trains, as an optimizer does elsewhere: it holds nothing of the script's."""

    def __init__(self, function: Any, variables: list[Any]) -> None:
        self.name = getattr(function, "__name__", type(function).__name__)
        self.traces = Traces(FRAMEWORK.name)
        self.told_by = told_by_others(function, FRAMEWORK)
        # Whether another framework tells of all its calls.
        self.is_always_told_by_others = always in self.told_by
        self.described = FRAMEWORK.describe_parameters(variables)


def install(recorder: Recorder) -> Undo:
    """Replace calls of tf.functions, and what computes gradients. Raises Unfit where this version has other ones."""
    function, tape = find(sys.modules.get(_FUNCTIONS), "Function"), find(sys.modules.get(_TAPES), "GradientTape")
    call, gradient = find(function, "__call__"), find(tape, "gradient")
    executes_eagerly = find(sys.modules["tensorflow"], "executing_eagerly")
    functions = recorder.shared(TracedFunctions)

    @functools.wraps(gradient)
    def seen_gradient(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if not executes_eagerly():
            functions.trains(argument(args, kwargs, 1, "sources"))
        began_ns = now()
        try:
            result = gradient(self, *args, **kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        # A process in which nothing trains gets no files for a gradient.
        if executes_eagerly() and recorder.watched:
            recorder.event(BACKWARD, began_ns, now())
        return result

    return all_of([functions.close, replace(function, "__call__", functions.called(call)), replace(tape, "gradient", seen_gradient)])


HOOK = Hook(name="tensorflow_functions", module="tensorflow", install=install)
