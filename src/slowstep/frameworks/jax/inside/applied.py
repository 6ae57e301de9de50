"""Updates that optax and equinox apply beside what is jitted, operation by operation. Inside of it they are traced, and are no calls.

Each place in the script at which they are applied, with the calls that lead there, stands for an optimizer: two networks have two.
"""

from __future__ import annotations

import functools
import sys
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.jax.inside._framework import FRAMEWORK
from slowstep.frameworks.jax.inside._leaves import arrays, may_be_trained
from slowstep.frameworks.jax.inside._trainings import Trained, Trainings
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, all_of, find, replace
from slowstep.record.recorder import now
from slowstep.record.timing.tracebacks import PACKAGE, hide_own_frames

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_NAME: Final = "apply_updates"
# Calls that lead to one: a function of a framework's, one of the script's that updates any network, and one that says which.
_CALLS: Final = 5
# Places that are kept; those of a program with more are taken for one another.
_MOST_PLACES: Final = 64

# Each by the id() of its code and the instruction: to hash a code takes as long as it is, and a script's holds those of its functions.
AppliedAt = tuple[tuple[int, int], ...]


class Applied:
    """What is to be told of each call."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._trainings = recorder.shared(Trainings)
        self._trained: dict[AppliedAt, Trained | None] = {}
        # Held, so that the id() of each stays its own.
        self._codes: dict[int, CodeType] = {}
        recorder.forgetters.append(self.forget)

    def forget(self) -> None:
        """Know nothing, and hold nothing of the script's."""
        self._trained.clear()
        self._codes.clear()

    def returned(self, result: Any, began_ns: int, ended_ns: int) -> None:
        """It has given new parameters. Raises nothing."""
        try:
            if not self._recorder.live[0] or FRAMEWORK.is_tracing():
                return
            frame = sys._getframe(1)
            place = _place(frame)
            trained = self._trained[place] if place in self._trained else self._meet(place, frame, result)
            if trained is not None:
                self._trainings.called(trained, began_ns, ended_ns)
                if self._trainings.switch is not None:
                    self._trainings.tell_switch(trained, next(iter(arrays(result)), None))
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def _meet(self, place: AppliedAt, frame: FrameType, result: Any) -> Trained | None:
        """What is applied there; None where it is nothing that may be trained."""
        if len(self._trained) >= _MOST_PLACES:
            return next((known for known in self._trained.values() if known is not None), None)
        gave = arrays(result)
        trained = self._trainings.meet(_NAME, gave) if any(map(may_be_trained, gave)) else None
        self._trainings.are_applied |= trained is not None
        self._trained[place] = trained
        self._codes |= {id(each.f_code): each.f_code for each in _calls(frame)}
        return trained


def _place(frame: FrameType) -> AppliedAt:
    """Where the calls are that lead to this one."""
    return tuple([(id(each.f_code), each.f_lasti) for each in _calls(frame)])


def _calls(innermost: FrameType) -> list[FrameType]:
    """Those that lead to this one, innermost first."""
    frame: FrameType | None = innermost
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    found: list[FrameType] = []
    while frame is not None and len(found) < _CALLS:
        found.append(frame)
        frame = frame.f_back
    return found


def _install_in(package: str, recorder: Recorder) -> Undo:
    """Have its function told of, by all names that it has there. Raises Unfit where it has none."""
    original = find(sys.modules.get(package), _NAME)
    applied = Applied(recorder)
    undos: list[Undo] = [applied.forget]

    @functools.wraps(original)
    def apply_updates(*args: Any, **kwargs: Any) -> Any:
        began_ns = now()
        try:
            result = original(*args, **kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        applied.returned(result, began_ns, now())
        return result

    for name, module in sys.modules.copy().items():
        if (name == package or name.startswith(package + ".")) and vars(module).get(_NAME) is original:
            undos.append(replace(module, _NAME, apply_updates))
    return all_of(undos)


def _hook(package: str) -> Hook:
    return Hook(name=f"{package}_updates", module=package, install=functools.partial(_install_in, package))


HOOKS = (_hook("optax"), _hook("equinox"))
