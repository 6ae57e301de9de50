"""The root forward: the outermost call of an `nn.Module` on a thread, for loops whose input cannot be seen otherwise.

Modules that are no models are left out: an augmentation is called before the forward and a metric after the update, and neither ends the
input.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.torch.inside._answers.compiled import has_compiled
from slowstep.frameworks.torch.inside._autograd.used_forwards import ForwardKey, UsedForwards
from slowstep.health import HealthKind
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, Unfit, all_of, find, replace
from slowstep.record.recorder import now
from slowstep.record.steps.cpu_marks import build_marks
from slowstep.record.timing.batches import bytes_in, shape_in
from slowstep.record.timing.callers import call_path, training_frame
from slowstep.record.timing.tracebacks import hide_own_frames
from slowstep.record.writing.format import EVALUATING, FAILED, FORWARD, NO_GRADIENT
from slowstep.record.writing.threads import ThreadState

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


# Some modules make their parameters in their first calls.
_LOOKS: Final = 3
# A module may be made anew for every step.
_MOST: Final = 1000


class Models:
    """Tells modules apart, and remembers them. Raises Unfit where torch has no modules."""

    def __init__(self, torch: Any) -> None:
        self._parameters, self._modules = find(torch, "nn.Module.parameters"), find(torch, "nn.Module.modules")
        self._tensor: Any = find(torch, "Tensor")
        self._cell: Any = find(torch, "nn.RNNCellBase")
        # By id, with the type, because another module may come to lie where one was; and how often it was looked at.
        self._known: dict[int, tuple[type, bool, int]] = {}
        self._along_time: dict[int, tuple[type, bool]] = {}

    def is_model(self, module: Any) -> bool:
        """Whether a module, or one inside of it, has parameters or tensors that want gradients. Raises what the module itself raises."""
        kind, found, looks = self._known.get(id(module), (None, False, 0))
        if kind is not type(module):
            found, looks = False, 0
        if found or looks >= _LOOKS:
            return found
        found = next(iter(self._parameters(module)), None) is not None or any(map(self._has_tensors, self._modules(module)))
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[id(module)] = type(module), found, looks + 1
        return found

    def samples(self, module: Any, into: tuple[int, ...] | None, made: Any) -> int:
        """Samples in a call: the leading dimension of what is given (`into`, as `shape_in` has it), where samples seem to lie along it; -1
        where that is not known.

        Where what is made has another one, or none as a mean loss, samples may lie along another dimension: classes first, or time first.
        """
        out = shape_in(made)
        if into is None or out is None or into[0] != out[0]:
            return -1
        may_be_time = len(into) > 1 and into[1:2] == out[1:2] and self._may_run_along_time(module)
        return -1 if may_be_time else int(into[0])

    def _may_run_along_time(self, module: Any) -> bool:
        """Whether a module, or one inside of it, may take sequences whose first dimension is time: `batch_first=False`, as torch's own
        do, or a cell, which is called for each time and knows of no sequence.
        """
        kind, found = self._along_time.get(id(module), (None, False))
        if kind is not type(module):
            found = any(map(self._is_of_time, self._modules(module)))
            if len(self._along_time) >= _MOST:
                self._along_time.clear()
            self._along_time[id(module)] = type(module), found
        return found

    def _is_of_time(self, module: Any) -> bool:
        return isinstance(module, self._cell) or module.__dict__.get("batch_first") is False

    def _has_tensors(self, module: Any) -> bool:
        return any(isinstance(each, self._tensor) and each.requires_grad for each in module.__dict__.values())


FORWARD_NOT_RECORDED: Final = HealthKind(
    "forward-not-recorded",
    "notice",
    "code is compiled already, and to record its forwards would have it compiled again: record with --level 2 from the start",
)
# Flags, of a call with gradients its key and first node, and the shape of what is given.
_Met = tuple[int, ForwardKey | None, int, tuple[int, ...] | None]
_UNKNOWN: _Met = (0, None, 0, None)


def install(recorder: Recorder) -> Undo:
    """Wrap every call at level 2; at level 1 only once a loop is seen that no loader feeds, or that asks for more batches than it makes
    updates and backward passes. Raises Unfit where torch has no modules.
    """
    module_class = find(sys.modules["torch"], "nn.Module")
    find(module_class, "__call__")
    undos: list[Undo] = []

    def hook() -> None:
        # As it is at that time: where it is late, a lever may have replaced it, and is to be called too.
        undos.append(replace(module_class, "__call__", _timed(recorder, module_class.__call__)))

    def hook_now() -> None:
        if not has_compiled():
            hook()
        else:
            recorder.health(FORWARD_NOT_RECORDED)

    if recorder.level >= 2:
        if has_compiled():
            raise Unfit("code was compiled before the recording began, and would be compiled again")
        hook()
    elif recorder.level == 1:
        recorder.when_forwards_tell = hook_now
    return all_of(undos)


def _without_gradient(module: Any) -> int:
    """Flags of a forward without gradients. Read past the module's own attribute access, which may be the user's code."""
    return NO_GRADIENT if module.__dict__.get("training", True) else NO_GRADIENT | EVALUATING


def _build_meet(recorder: Recorder, torch: Any, models: Models) -> Callable[[Any, tuple[Any, ...]], _Met | None]:
    """What tells of a module that is called with these arguments what is known of it; None where it is no model."""
    has_gradient, is_model = find(torch, "is_grad_enabled"), models.is_model
    forwards = recorder.shared(UsedForwards)
    is_used = forwards.is_used
    forwards.ask(torch)

    def meet(module: Any, given: tuple[Any, ...]) -> _Met | None:
        if not is_model(module):
            return None
        into = shape_in(given)
        if not has_gradient():
            return _without_gradient(module), None, 0, into
        key = (id(module), -1 if into is None else into[0], bool(module.__dict__.get("training", True)))
        known = is_used.get(key)
        if known is False:
            return _without_gradient(module), None, 0, into
        return 0, key, 0 if known else forwards.begun(), into

    return meet


def _introduce(recorder: Recorder) -> None:
    """Note the way to the forward of which `end` tells that calls this."""
    called = sys._getframe(2)
    frame = training_frame(called)
    if frame is not None and recorder.ensure_open():
        recorder.note({"kind": "forward_frame", **frame})
        recorder.note({"kind": "forward_path", **call_path(called)})


def _build_begin(recorder: Recorder) -> Callable[[ThreadState, int], int]:
    """What is due when a thread begins a forward with these flags; returns when it began."""
    before_forwards, (mark, _) = recorder.before_forwards, build_marks(recorder)

    def begin(me: ThreadState, flags: int) -> int:
        me.forward = True
        for told in before_forwards:
            told()
        t0 = now()
        if not (flags or me.fed):
            # Where input ends in a loop that is not fed.
            if me.marking and me.marked != me.updates:
                me.marked = me.updates
                mark(me, t0)
            if me.when_received is not None:
                me.when_received(me)
        return t0

    return begin


def _build_end(recorder: Recorder, models: Models) -> Callable[[Any, tuple[Any, ...], _Met, Any, int, int], None]:
    """What records a forward that has ended: the module, what it was given, what is known of the call, what it made, its begin and end."""
    event, fault, forwards, introduced = recorder.event, recorder.fault, recorder.shared(UsedForwards), [False]
    is_used = forwards.is_used
    recorder.forgetters.append(lambda: introduced.__setitem__(0, False))

    def samples_of(module: Any, into: tuple[int, ...] | None, made: Any) -> int:
        try:
            return models.samples(module, into, made)
        except Exception as error:  # the border: what a model makes may be of any kind, and its call is recorded all the same
            fault(error)
            return -1

    def end(module: Any, given: tuple[Any, ...], met: _Met, made: Any, t0: int, t1: int) -> None:
        flags, key, first, into = met
        try:
            # What a model does that leads to no update is a teacher's part, a roll-out or a validation: no sign of where the input ends.
            if not (flags or introduced[0]) and (key is None or is_used.get(key) or not forwards.asks):
                introduced[0] = True
                _introduce(recorder)
            event(FORWARD, t0, t1, samples_of(module, into, made), id(module), bytes_in(given), flags)
            if key is not None and key not in is_used:
                forwards.ended(key, first)
        except Exception as error:  # the border: counted, and never raised into the training
            fault(error)

    return end


def _timed(recorder: Recorder, original: Any) -> Any:
    event, local, fault = recorder.event, recorder.local, recorder.fault
    models = Models(sys.modules["torch"])
    meet, begin, end = _build_meet(recorder, sys.modules["torch"], models), _build_begin(recorder), _build_end(recorder, models)

    @functools.wraps(original)
    def __call__(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        me = local.me
        if me.forward:
            return original(self, *args, **kwargs)
        given = args or tuple(kwargs.values())
        try:
            met = meet(self, given)
        except Exception as error:  # the border: counted, and never raised into the training
            fault(error)
            met = _UNKNOWN
        if met is None:
            return original(self, *args, **kwargs)
        t0 = begin(me, met[0])
        try:
            result = original(self, *args, **kwargs)
        except BaseException:  # passed on, without our frames; the call is recorded as failed
            me.forward = False
            event(FORWARD, t0, now(), -1, id(self), -1, FAILED | met[0])
            hide_own_frames()
            raise
        t1 = now()
        me.forward = False
        end(self, given, met, result, t0, t1)
        return result

    return __call__


HOOK = Hook(name="torch_module", module="torch", install=install)
