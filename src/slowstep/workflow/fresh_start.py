"""Another start of a proof's script in place of the one before it: for what to do where the script could not go on with a lever."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from slowstep.prove.executor import Executor, LiveExecutor
from slowstep.prove.sandboxed_run import SandboxedRun
from slowstep.record.launching.folder import forget_aside, put_back, set_aside


@dataclass(frozen=True, kw_only=True, slots=True)
class FreshStart:
    """Another start of the training, in a sandbox of its own and the same folder. `start` sets the recording aside and makes ready, `back`
    puts it in the place of the later one, and `forget` lets go of it.
    """

    start: Callable[[], Executor]
    back: Callable[[], None]
    forget: Callable[[], None]


def fresh_start(place: SandboxedRun, environ: Mapping[str, str], until_s: float) -> FreshStart:
    """How the script is started once more in a sandbox of its own, until the same time; what was recorded is set aside meanwhile."""
    folder = str(place.folder)

    def start() -> LiveExecutor:
        set_aside(folder)
        left_s = max(until_s - time.monotonic(), 0.0)
        return LiveExecutor(place.command, place.folder, place.opened(place.folder), environ, limit_s=left_s)

    return FreshStart(start=start, back=lambda: put_back(folder), forget=lambda: forget_aside(folder))
