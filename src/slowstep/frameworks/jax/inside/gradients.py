"""How often gradients were taken: in what is jitted, while it is traced. What takes one may be what a training calls."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, Unfit, all_of, replace
from slowstep.record.timing.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# What `jax.grad` and `jax.value_and_grad` call; it has changed its name.
_NAMES: Final = ("vjp", "_vjp")


class Gradients:
    """Shared with who calls what is jitted; `taken` counts those of all threads."""

    def __init__(self, recorder: Recorder) -> None:
        self.taken = self._told = 0

    def were_taken(self) -> bool:
        """Whether any were since this was last asked."""
        told, self._told = self._told, self.taken
        return self.taken != told


def install(recorder: Recorder) -> Undo:
    """Have them counted. Raises Unfit where this version of JAX takes them otherwise."""
    api, gradients = sys.modules.get("jax._src.api"), recorder.shared(Gradients)
    found = [name for name in _NAMES if callable(vars(api).get(name))] if api is not None else []
    if not found:
        raise Unfit(f"jax._src.api has none of {', '.join(_NAMES)}")
    return all_of([replace(api, name, _counted(getattr(api, name), gradients)) for name in found])


def _counted(original: Any, gradients: Gradients) -> Any:
    @functools.wraps(original)
    def seen(*args: Any, **kwargs: Any) -> Any:
        gradients.taken += 1
        try:
            return original(*args, **kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise

    return seen


HOOK = Hook(name="jax_gradients", module="jax", install=install)
