"""How a proof's script is started again: what any such start is, and one in place of that before, which could not go on with a lever."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slowstep.prove.executor import Executor, LiveExecutor
from slowstep.prove.sandboxed_run import SandboxedRun
from slowstep.record.launching.folder import forget_aside, put_back, set_aside

# Makes a start ready that is recorded into this folder.
StartInto = Callable[[Path], Executor]


@dataclass(frozen=True, kw_only=True, slots=True)
class FreshStart:
    """Another start of the training, in a sandbox of its own and the same folder. `start` sets the recording aside and makes ready, `back`
    puts it in the place of the later one, and `forget` lets go of it.
    """

    start: Callable[[], Executor]
    back: Callable[[], None]
    forget: Callable[[], None]


def starts_of(place: SandboxedRun, environ: Mapping[str, str], until_s: float) -> StartInto:
    """How the script is started again, each time in a sandbox of its own, until the same time."""

    def start(folder: Path) -> LiveExecutor:
        left_s = max(until_s - time.monotonic(), 0.0)
        return LiveExecutor(place.command, folder, place.opened(folder), environ, limit_s=left_s)

    return start


def fresh_start(folder: Path, start_into: StartInto) -> FreshStart:
    """How the script is started once more into the same folder; what was recorded is set aside meanwhile."""
    recorded = str(folder)

    def start() -> Executor:
        set_aside(recorded)
        return start_into(folder)

    return FreshStart(start=start, back=lambda: put_back(recorded), forget=lambda: forget_aside(recorded))
