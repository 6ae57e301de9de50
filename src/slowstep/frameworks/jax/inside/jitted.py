"""Calls of jitted functions, told by JAX itself when they return: which of them trains, and whether the device has done what it was given.

A function trains whose results are what its next call is given: parameters, and the state of an optimizer. (Sums of a metric are single
numbers, and the state of a generator of random ones is no real number.) Of a call that has to compile,
or has effects, JAX does not tell: it is seen on its longer way. A function that was compiled by hand is not seen.
"""

from __future__ import annotations

import functools
import sys
import weakref
from contextlib import suppress
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.jax.inside._framework import FRAMEWORK
from slowstep.frameworks.jax.inside._leaves import arrays, is_array, may_be_trained
from slowstep.frameworks.jax.inside._post_hook import call_after_each
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, Unfit, all_of, find, replace
from slowstep.record.recorder import now
from slowstep.record.steps.updates import Updates
from slowstep.record.timing.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# Calls of a function that are looked at, to tell whether it takes what it gave.
_LOOKED_AT: Final = 8
# An array that is kept until the next call, so that it can be asked: no more than this is held of the script's.
_KEPT_BYTES: Final = 65536
# A hundredth of the time may be spent on looking through large results.
_ELAPSED_PER_COST: Final = 100
# Places of calls that are kept; a program with more has most of its time elsewhere.
_MOST_PLACES: Final = 256
_OWN: Final = ("/jax/", "/jaxlib/")


class _Trained:
    """What stands for a function that trains, as an optimizer does elsewhere."""

    def __init__(self, function: Any) -> None:
        self.function = weakref.ref(function)
        self.name = getattr(function, "__name__", type(function).__name__)
        self.given: list[Any] = []


class _Jitted:
    """What is known of a jitted function: `trains` is None while that is still looked for."""

    __slots__ = ("calls", "given", "is_own", "trained", "trains")

    def __init__(self, *, is_own: bool) -> None:
        self.calls, self.is_own = 0, is_own
        self.given: frozenset[int] = frozenset()
        self.trains: bool | None = False if is_own else None
        self.trained: _Trained | None = None


class JittedCalls:
    """What is to be called after each of them; `is_idle` asks whether the device has done them all."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._updates = Updates(recorder, FRAMEWORK)
        self._known: weakref.WeakKeyDictionary[Any, _Jitted] = weakref.WeakKeyDictionary()
        self._places: set[tuple[CodeType, int]] = set()
        # The result of the last call that can be asked: itself where it is small, else a reference that does not keep it.
        self._last: Any = None
        self._affordable_ns = 0
        recorder.forgetters.append(self._forget)

    def _forget(self) -> None:
        self._known.clear()
        self._places.clear()
        self._last = None

    def returned(self, function: Any, args: Any, kwargs: Any, result: Any) -> None:
        """A call has returned, and the device may be working on it. Raises nothing."""
        ended_ns = now()
        self.called(getattr(function, "__wrapped__", function), args, kwargs, result, ended_ns, ended_ns)

    def called(self, function: Any, args: Any, kwargs: Any, result: Any, began_ns: int, ended_ns: int) -> None:
        """The same of the function itself, not of what JAX has made of it; when most calls began is not known. Raises nothing."""
        try:
            if not self.recorder.live[0]:
                return
            known = self._known.get(function)
            if known is None:
                known = self._known[function] = _Jitted(is_own=_is_own(function))
            if not self._remember(result):
                # It is being traced, as a part of another one.
                return
            if known.trains is None:
                self._look(known, function, args, kwargs, result)
            if not known.is_own and len(self._places) < _MOST_PLACES:
                frame = sys._getframe(2)
                self._places.add((frame.f_code, frame.f_lasti))
            if known.trained is not None:
                self._updates.called(known.trained, began_ns, ended_ns)
        except Exception as error:  # the border: counted, and never raised into the training
            self.recorder.fault(error)

    def is_idle(self, code: CodeType, at: int) -> bool | None:
        """Whether the device has nothing to do, by where the thread stands that calls; None where that is not known."""
        if (code, at) in self._places:
            # It is just being given something, and small things are computed in the call itself.
            return False
        last = self._last
        if isinstance(last, weakref.ref):
            last = last()
        if last is None or last.is_deleted():
            return None
        return bool(last.is_ready())

    def _remember(self, result: Any) -> bool:
        """Whether the result has an array that can be asked."""
        # Losses stand beside the rest, which may be a tree of hundreds.
        beside = result if isinstance(result, tuple) else (result,)
        found = min((each for each in beside if is_array(each)), key=_bytes, default=None)
        if found is None or _bytes(found) > _KEPT_BYTES:
            began_ns = now()
            if self._affordable_ns > began_ns:
                # It is not known what to ask until the next call.
                self._last = None
                return True
            found = min(arrays(result), key=_bytes, default=None)
            ended_ns = now()
            self._affordable_ns = ended_ns + _ELAPSED_PER_COST * (ended_ns - began_ns)
        if found is None:
            return False
        self._last = found if _bytes(found) <= _KEPT_BYTES else weakref.ref(found)
        return True

    def _look(self, known: _Jitted, function: Any, args: Any, kwargs: Any, result: Any) -> None:
        known.calls += 1
        given = arrays(result)
        if any(id(array) in known.given and may_be_trained(array) for array in arrays((args, kwargs))):
            known.trains, known.trained = True, _Trained(function)
            known.trained.given = given
            self._updates.known(known.trained)
            known.trained.given = []
        elif known.calls >= _LOOKED_AT:
            known.trains = False
        # An id() may be used again by then: not that of an array that is alive and is given to the next call.
        known.given = frozenset(map(id, given))


def _bytes(array: Any) -> int:
    return int(array.nbytes)


def _is_own(function: Any) -> bool:
    """Whether it is one of JAX's own, as each operation is that a script calls by itself."""
    code = getattr(function, "__code__", None)
    return code is not None and "-packages" in code.co_filename and any(folder in code.co_filename for folder in _OWN)


def install(recorder: Recorder) -> Undo:
    """Be told. Raises Unfit where this version of JAX does not tell."""
    calls = JittedCalls(recorder)
    undos = [call_after_each(calls.returned)]
    recorder.device_probes.append(calls.is_idle)
    undos.append(lambda: recorder.device_probes.remove(calls.is_idle))
    # Older versions have another one: there only steps are lost that compile.
    with suppress(Unfit):
        undos.append(_on_longer_way(calls))
    return all_of(undos)


def _on_longer_way(calls: JittedCalls) -> Undo:
    """Have calls seen that compile, or have effects. Raises Unfit where this version of JAX has no such function."""
    module = sys.modules["jax._src.pjit"]
    original = find(module, "_run_python_pjit")
    fault = calls.recorder.fault

    @functools.wraps(original)
    def _run_python_pjit(p: Any, args_flat: Any, fun: Any, args: Any, kwargs: Any) -> Any:
        began_ns = now()
        try:
            told = original(p, args_flat, fun, args, kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        try:
            calls.called(fun, args, kwargs, told[0], began_ns, now())
        except Exception as error:  # the border: counted, and never raised into the training
            fault(error)
        return told

    return replace(module, "_run_python_pjit", _run_python_pjit)


HOOK = Hook(name="jax_jit", module="jax", install=install)
