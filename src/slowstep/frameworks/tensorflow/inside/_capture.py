"""TensorFlow's own profiler, for a capture of a few steps: its session, without what `tf.profiler` keeps of one."""

from __future__ import annotations

import glob
import importlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.tensorflow.inside._framework import accelerators
from slowstep.record.patch import Undo, find, replace
from slowstep.record.steps.standing_in import StandIn
from slowstep.record.steps.window_capture import STEP, WindowCapture, beside_accelerator, window_capture

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# All that the executor runs, and none of Python's calls, which would make the steps longer.
_OPTIONS: Final = {"host_tracer_level": 2, "python_tracer_level": 0, "device_tracer_level": 1, "delay_ms": None}


class TensorFlowProfiler:
    """A session of its own, of which there can be one in a process at a time."""

    name = "tf.profiler"

    def __init__(self) -> None:
        self._session: Any = None
        self._scratch = ""

    def refusal(self) -> str | None:
        """Where the script profiles just now, and beside an accelerator: a profile is ended there by the same code of XLA as JAX has."""
        if find(_profiler(), "_profiler") is not None:
            return "a profiler of TensorFlow is on already"
        devices = accelerators()
        if devices:
            return beside_accelerator(self.name, devices[0].device_type)
        return None

    def start(self, scratch: str) -> None:
        """Raises AlreadyExistsError where there is a session that the profiler does not know of, as of its server."""
        session = find(_profiler(), "_pywrap_profiler.ProfilerSession")()
        session.start(scratch, dict(_OPTIONS))
        self._session, self._scratch = session, scratch

    def guard(self, make_way: Callable[[], None]) -> Undo:
        """`tf.profiler` asks for the class of a session when it begins one, whoever calls it by whatever name."""
        module = _profiler()
        return replace(module, "_pywrap_profiler", StandIn(module._pywrap_profiler, "ProfilerSession", make_way))

    def step(self, number: int) -> AbstractContextManager[Any]:
        """As `tf.profiler.experimental.Trace` marks one."""
        mark: AbstractContextManager[Any] = importlib.import_module("tensorflow.python.profiler.trace").Trace(STEP, step_num=number, _r=1)
        return mark

    def stop(self, *, keep: bool) -> bytes:
        """What it gives itself is of another format: the file that it writes is read. Raises what TensorFlow does, or OSError."""
        session, self._session = self._session, None
        if not keep:
            session.stop()
            return b""
        session.export_to_tb()
        (file,) = glob.glob(os.path.join(glob.escape(self._scratch), "plugins", "profile", "*", "*.xplane.pb"))
        with open(file, "rb") as written:
            return written.read()


def _profiler() -> Any:
    """The module behind `tf.profiler.experimental`."""
    return importlib.import_module("tensorflow.python.profiler.profiler_v2")


def tensorflow_capture(recorder: Recorder) -> WindowCapture | None:
    """The one of this process: to be asked for by `recorder.shared`."""
    return window_capture(recorder, TensorFlowProfiler)
