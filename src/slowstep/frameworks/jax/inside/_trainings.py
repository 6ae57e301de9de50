"""What trains with JAX, which has no optimizers that could be asked: functions that hand on their results, and updates beside them."""

from __future__ import annotations

from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.jax.inside._capture import jax_capture
from slowstep.frameworks.jax.inside._framework import FRAMEWORK
from slowstep.health import HealthKind
from slowstep.record.experiment.switch import switch_of
from slowstep.record.steps.updates import Updates

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

SEVERAL_FUNCTIONS_HAND_ON: Final = HealthKind(
    "several-functions-hand-on", "notice", "steps are calls of the one that is called most often, of these: {functions}"
)


class Trained:
    """What stands for a function that trains, as an optimizer does elsewhere."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.given: list[Any] = []


class Trainings:
    """Shared by the hooks that tell of updates."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._updates = Updates(recorder, FRAMEWORK, recorder.shared(jax_capture))
        # One update was made, between two instants: to be called with what trained and these. Raises nothing.
        self.called = self._updates.called
        self.switch = switch_of(recorder)
        # Whether a library has told of updates that it applied.
        self.are_applied = False
        self._names: list[str] = []
        recorder.forgetters.append(self._forget)
        recorder.undos.append(self._close)

    def _forget(self) -> None:
        self._names.clear()
        self.are_applied = False

    def _close(self) -> None:
        self._forget()
        if self.switch is not None:
            self.switch.close()

    def meet(self, name: str, gave: list[Any], frame: FrameType | None = None) -> Trained:
        """What gave these arrays just now trains: it is described in the notes, with the `frame` that called it where that is not the next
        one of the script's. Raises what JAX does of arrays that it does not know.
        """
        trained = Trained(name)
        trained.given = gave
        self._updates.known(trained, frame)
        trained.given = []
        return trained

    def hands_on(self, trained: Trained) -> None:
        """It does so by itself, as one of several functions may."""
        self._names.append(trained.name)
        if len(self._names) > 1:
            self._recorder.health(SEVERAL_FUNCTIONS_HAND_ON, functions=", ".join(self._names))

    def tell_switch(self, trained: Trained, last: Any) -> None:
        """Its update has been issued; `last` is an array, or refers to one, that is there when it is made."""
        if self.switch is not None:
            self.switch.updated(trained, partial(_is_made, last))


def _is_made(last: Any) -> bool:
    """Wait for an array, or one that is referred to. False where it is gone, or was given away."""
    array = last() if callable(last) else last
    if array is None or array.is_deleted():
        return False
    array.block_until_ready()
    return True
