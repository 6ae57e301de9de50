"""Whether torch's anomaly detection, deterministic algorithms or profiler are on, or oneDNN is off: looked at twice a second, beside the
training thread.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, Unfit
from slowstep.record.recorder import now
from slowstep.record.timing.modes import ANOMALY, DETERMINISTIC, FRAMEWORK_MODES, FRAMEWORK_PROFILER, PLAIN_KERNELS
from slowstep.record.writing.format import MODES

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


def torch_modes() -> int | None:
    """Which of torch's modes are on, seen from any thread; None where torch does not say."""
    torch = sys.modules.get("torch")
    profiler = sys.modules.get("torch.autograd.profiler")
    try:
        return (
            ANOMALY * bool(torch.is_anomaly_enabled())  # type: ignore[union-attr]
            | DETERMINISTIC * bool(torch.are_deterministic_algorithms_enabled())  # type: ignore[union-attr]
            | FRAMEWORK_PROFILER * bool(getattr(profiler, "_is_profiler_enabled", False))
            | PLAIN_KERNELS * _is_library_off(torch)
        )
    except AttributeError:
        return None


def _is_library_off(torch: Any) -> bool:
    """Whether oneDNN is there and must not be used; unknown is no."""
    library: Any = getattr(getattr(torch, "backends", None), "mkldnn", None)
    return getattr(library, "enabled", True) is False and bool(library.is_available())


def install(recorder: Recorder) -> Undo:
    """Look among the chores of the sampler's thread. Raises Unfit where torch does not say."""
    if torch_modes() is None:
        raise Unfit("torch does not say whether anomaly detection is on")

    def look() -> None:
        modes = torch_modes()
        # Loader workers and helpers train nothing.
        if modes is not None and recorder.updaters:
            at_ns = now()
            recorder.event(MODES, at_ns, at_ns, modes, FRAMEWORK_MODES)

    recorder.chores.append(look)
    return lambda: recorder.chores.remove(look)


HOOK = Hook(name="torch_modes", module="torch", install=install)
