"""Ends a command and everything that it started by SIGKILL, so that nothing of the user's cleans up."""

from __future__ import annotations

import os
import signal
import time
from typing import Final

from slowstep.record.system import processes

LIMIT_S: Final = 10.0
_PAUSE_S: Final = 0.005


def end_all(roots: set[int], variable: tuple[str, str], *, limit_s: float = LIMIT_S) -> list[int]:
    """Kill what lives below the roots (not these themselves) and all that has an environment variable of that value, again and again
    until nothing is left. Returns what is left after the time limit."""
    deadline_s = time.monotonic() + limit_s
    while living := _living(roots, variable):
        if time.monotonic() >= deadline_s:
            return sorted(living)
        for pid in living:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue  # gone, or another user's: then it is said to be left
        time.sleep(_PAUSE_S)
        _collect()
    return []


def _living(roots: set[int], variable: tuple[str, str]) -> set[int]:
    below = _still({pid for root in roots for pid in processes.tree(root)} - roots)
    # The second look takes longer, and finds what has left the tree.
    return below or _still(set(processes.living_with(*variable)) - roots)


def _still(pids: set[int]) -> set[int]:
    return {pid for pid in pids if (stat := processes.read_stat(pid)) is not None and not stat.ended}


def _collect() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
