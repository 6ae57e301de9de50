"""Operations that Python hands over one by one: in a few steps each is timed, and so is the Python between them.

What is replaced for such a step alone are the functions through which all of them go: a step in which nothing is timed pays for two
comparisons.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.tensorflow.inside._framework import accelerators
from slowstep.record.patch import Undo, all_of, replace
from slowstep.record.recorder import now
from slowstep.record.timing.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

EAGER_RUN: Final = "tensorflow.python.eager.polymorphic_function.eager_function_run"
RUNS_EAGERLY: Final = "RUN_FUNCTIONS_EAGERLY"
_MODULE: Final = "tensorflow.python.pywrap_tfe"
# What runs an operation, and which of its arguments names that.
_EXECUTES: Final = {"TFE_Py_FastPathExecute": 1, "TFE_Py_Execute": 2, "TFE_Py_ExecuteCancelable": 2}
# What waits for input is no computing: the hooks of iterators tell of it.
_INPUT: Final = ("Iterator", "Optional", "MultiDeviceIterator", "OneShotIterator", "AnonymousIterator")
# The first updates build what the others use.
_FIRST: Final = 10
# Steps of optimizers that are called in turns are seen alike: these are primes.
_EVERY: Final = (3, 23, 229)
_FEW: Final = 8
_MANY: Final = 200
# Operations of a larger step are more than are kept: their number alone says what is to be said.
_MOST: Final = 50_000
# Python of TensorFlow and Keras between two operations takes 5 to 500 us of the processor; what takes longer does something else.
SHORT_GAP_NS: Final = 200_000
LONGEST_GAP_NS: Final = 1_000_000
# While others compute the same takes several times as long.
CAPPED_GAP_NS: Final = 4_000_000

# Operations that compute next to nothing take one to four times as long as the shortest ones.
_BEYOND: Final = {"low": 1, "four_times": 4, "sixteen_times": 16}

_cpu = time.thread_time_ns
# An operation: when it began and ended, by the clock and by the thread's processor time, and its name.
TimedOperation = tuple[int, int, int, int, Any]
# Names of the operations of a step, and what each took of the processor.
TimedStep = tuple[list[Any], list[int]]


class Dispatches:
    """What is timed in the steps of one thread. All hooks tell it of updates; nothing here raises."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._timed: list[TimedOperation] = []
        self._undo: Undo | None = None
        self._is_inside = False
        self._clear()
        recorder.forgetters.append(self._forget)
        recorder.undos.append(self._forget)
        recorder.call_timers.append(self.abandon)

    def _clear(self) -> None:
        self._updates, self._next, self._steps, self._thread = 0, _FIRST, 0, 0
        self._began_ns = self._cpu_ns = self._process_ns = self._each_ns = 0
        self._before: TimedStep | None = None
        self._delay_ns: int | None = None

    def _forget(self) -> None:
        self.abandon()
        self._clear()

    def updated(self, since_ns: int = 0) -> None:
        """An eager update, or an eager call that makes some and began at `since_ns`, has ended on this thread."""
        self._updates += 1
        if self._updates < self._next and self._undo is None:
            return
        try:
            self._at_end(since_ns)
        except Exception as error:  # the border: counted, and never raised into the training
            self.abandon()
            self._recorder.fault(error)

    def abandon(self) -> None:
        """Time no more, and keep nothing of what was."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()
        self._timed = []

    def _at_end(self, since_ns: int) -> None:
        ended_ns, cpu_ns, delay_ns = now(), (_cpu(), time.process_time_ns()), self._recorder.local.me.delay_ns()
        if self._undo is not None:
            timed, mine = self._timed, threading.get_ident() == self._thread
            self.abandon()
            if mine and len(timed) < _MOST:
                # What callbacks do between two calls is none of these.
                self._write([each for each in timed if each[0] >= since_ns], ended_ns, cpu_ns, delay_ns)
            self._recorder.spent_ns += now() - ended_ns + len(timed) * self._each_ns
        elif self._recorder.live[0] and self._recorder.level and self._recorder.watched:
            self._begin()

    def _begin(self) -> None:
        module: Any = sys.modules.get(_MODULE)
        self._steps += 1
        self._next = self._updates + _EVERY[(self._steps > _FEW) + (self._steps > _MANY)]
        if module is None or any(not hasattr(module, name) for name in _EXECUTES):
            return
        self._thread = threading.get_ident()
        if not self._each_ns:
            self._each_ns = self._cost()
        self._undo = all_of([replace(module, name, self._timing(getattr(module, name), at)) for name, at in _EXECUTES.items()])
        self._delay_ns = self._recorder.local.me.delay_ns()
        self._began_ns, self._cpu_ns, self._process_ns = now(), _cpu(), time.process_time_ns()

    def _timing(self, original: Any, at: int) -> Callable[..., Any]:
        timed, thread, ident = self._timed, self._thread, threading.get_ident

        def execute(*args: Any) -> Any:
            # What runs inside an operation, as a function in Python, is a part of it.
            if self._is_inside or ident() != thread:
                return original(*args)
            self._is_inside = True
            cpu_ns, began_ns = _cpu(), now()
            try:
                return original(*args)
            except BaseException:  # passed on, without our frames in the traceback
                hide_own_frames()
                raise
            finally:
                ended_ns, cpu_ended_ns = now(), _cpu()
                self._is_inside = False
                # What no update ends, as a long validation, is not kept.
                if len(timed) < _MOST:
                    timed.append((began_ns, ended_ns, cpu_ns, cpu_ended_ns, args[at]))

        return execute

    def _cost(self, rounds: int = 9, times: int = 25) -> int:
        """What timing one takes, in ns of processor time: a wait for a core among them would stand for one in each operation."""
        nothing = self._timing(lambda *_: None, 0)
        each_ns = []
        for _ in range(rounds):
            began_ns = _cpu()
            for _ in range(times):
                nothing("")
            each_ns.append((_cpu() - began_ns) // times)
        self._timed.clear()
        return max(sorted(each_ns)[rounds // 2], 1)

    def _write(self, timed: list[TimedOperation], ended_ns: int, cpu_ns: tuple[int, int], delay_ns: int | None) -> None:
        """`cpu_ns` of the thread and of the process."""
        known = delay_ns is not None and self._delay_ns is not None
        thread_ns, process_ns = cpu_ns[0] - self._cpu_ns, cpu_ns[1] - self._process_ns
        line = {
            "at_ns": ended_ns,
            "wall_ns": ended_ns - self._began_ns,
            "cpu_ns": thread_ns,
            "helpers_cpu_ns": max(process_ns - thread_ns, 0),
            "timing_ns": len(timed) * self._each_ns,
            "delay_ns": (delay_ns or 0) - (self._delay_ns or 0) if known else None,
            "asynchronous": bool(accelerators()) or not sys.modules["tensorflow"].config.experimental.get_synchronous_execution(),
        }
        self._recorder.note({"kind": "dispatched", **line, **summed(timed, self._each_ns, self._before)})
        self._before = of_step(timed)


def runs_functions_eagerly() -> bool:
    """Whether the script has asked for functions to be run as they are, and not traced. Raises nothing."""
    return getattr(sys.modules.get(EAGER_RUN), RUNS_EAGERLY, False) is True


def _asks_for_input(operation: Any) -> bool:
    name = operation.decode(errors="replace") if isinstance(operation, bytes) else str(operation)
    return name.startswith(_INPUT)


def of_step(timed: list[TimedOperation]) -> TimedStep:
    """The operations of a step that do not ask for input."""
    operations = [each for each in timed if not _asks_for_input(each[4])]
    return [each[4] for each in operations], [ended - began for _, _, began, ended, _ in operations]


def summed(timed: list[TimedOperation], each_ns: int = 0, before: TimedStep | None = None) -> dict[str, int]:
    """How many operations a step had, and what they and the Python between them took, in ns; timing one took `each_ns`.

    `low_ns` is what the shortest tenth of them took at most, `above_..._ns` what all took beyond that, and beyond four and sixteen times
    that: of each the lesser of this step's and that of the same one `before`, for what comes in between (a collection of garbage, caches
    that another process filled) is nothing that it computes.
    """
    operations = [each for each in timed if not _asks_for_input(each[4])]
    names, cpu = of_step(timed)
    least = sorted(map(min, cpu, before[1]) if before is not None and before[0] == names else cpu)
    gaps = [max(second[2] - first[3] - each_ns, 0) for first, second in pairwise(timed)]
    low = least[len(least) // 10] if least else 0
    return {
        "operations": len(operations),
        "operations_ns": sum(ended - began for began, ended, *_ in operations),
        "operations_cpu_ns": sum(cpu),
        "low_ns": low,
        **{f"above_{name}_ns": sum(max(each - times * low, 0) for each in least) for name, times in _BEYOND.items()},
        "short_gaps_ns": sum(gap for gap in gaps if gap <= SHORT_GAP_NS),
        "gaps_ns": sum(gap for gap in gaps if gap <= LONGEST_GAP_NS),
        "capped_gaps_ns": sum(min(gap, CAPPED_GAP_NS) for gap in gaps),
    }
