"""JAX's own profiler, for a capture of a few steps: its session, without what `jax.profiler` keeps of one."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from slowstep.record.patch import Undo, find, replace
from slowstep.record.steps.standing_in import StandIn
from slowstep.record.steps.window_capture import STEP, WindowCapture, beside_accelerator, window_capture

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


class JaxProfiler:
    """A session of its own, of which there can be one in a process at a time."""

    name = "jax.profiler"

    def __init__(self) -> None:
        self._session: Any = None

    def refusal(self) -> str | None:
        """Where the script profiles just now, and beside an accelerator: to end a profile there has ended processes (jax-ml/jax#40260)."""
        if find(_profiler(), "_profile_state.profile_session") is not None:
            return "a profiler of JAX is on already"
        # An update has initialised the devices.
        device = sys.modules["jax"].default_backend()
        if device != "cpu":
            return beside_accelerator(self.name, device)
        return None

    def start(self, scratch: str) -> None:
        """Raises what JAX does where there is a session that `jax.profiler` does not know of, as of its server."""
        profiler = find(_profiler(), "_profiler")
        options = profiler.ProfileOptions()
        # None of Python's calls, which would make the steps longer.
        options.python_tracer_level = 0
        if hasattr(options, "raise_error_on_start_failure"):
            # Else it tells when it is ended.
            options.raise_error_on_start_failure = True
        self._session = profiler.ProfilerSession(options)

    def guard(self, make_way: Callable[[], None]) -> Undo:
        """`jax.profiler` asks for the class of a session when it begins one, whoever calls it by whatever name."""
        module = _profiler()
        return replace(module, "_profiler", StandIn(module._profiler, "ProfilerSession", make_way))

    def step(self, number: int) -> AbstractContextManager[Any]:
        """As JAX marks one."""
        mark: AbstractContextManager[Any] = sys.modules["jax"].profiler.StepTraceAnnotation(STEP, step_num=number)
        return mark

    def stop(self, *, keep: bool) -> bytes:
        """Raises what JAX does."""
        session, self._session = self._session, None
        return bytes(session.stop())


def _profiler() -> Any:
    """The module behind `jax.profiler`."""
    return importlib.import_module("jax._src.profiler")


def jax_capture(recorder: Recorder) -> WindowCapture | None:
    """The one of this process: to be asked for by `recorder.shared`."""
    return window_capture(recorder, JaxProfiler)
