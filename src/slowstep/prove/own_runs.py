"""Runs of the user's script of which nothing is kept, each in a sandbox of its own: beside the training that is recorded."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from slowstep.prove.executor import Executor, LiveExecutor
from slowstep.prove.sandbox.sandbox import Sandbox
from slowstep.record.launching.command import Command
from slowstep.record.launching.folder import create_folder

Open = Callable[[Path], Sandbox]

# How long a start-up is taken to be where it was not seen.
START_UP_S: Final = 30.0
# Where the time that runs take is not asked for, they take no longer than the experiment and its lead-in may.
OF_BUDGET: Final = 2.0
# Of its usual time, which others on the machine may double.
_PATIENCE: Final = 4.0


class OwnRuns:
    """Makes them, in `folder`. `open_sandbox` opens one for a recording's folder: a run that found the checkpoint of the run before would
    go on from there.
    """

    def __init__(self, command: Command, environ: Mapping[str, str], folder: Path, open_sandbox: Open) -> None:
        self._command, self._environ, self._folder, self._open = command, environ, folder, open_sandbox

    def made(self, variables: Mapping[str, str], limit_s: float) -> Executor:
        """A run that is asked for these variables, and killed after twice the limit whatever happens."""
        folder = Path(create_folder(parent=str(self._folder), stem="run"))
        sandbox = self._open(folder)
        return _OwnRun(self._command, folder, sandbox, self._environ, limit_s=2 * limit_s, asked=variables)

    def remove(self) -> None:
        """Leave nothing of them."""
        shutil.rmtree(self._folder, ignore_errors=True)


def longest_s(usual_s: float) -> float:
    """For how long a run is waited for that usually takes so long."""
    return _PATIENCE * usual_s + START_UP_S


class _OwnRun(LiveExecutor):
    """A run of which nothing is kept: with its end its sandbox is removed, and its recording."""

    def _clear(self) -> None:
        super()._clear()
        shutil.rmtree(self.folder, ignore_errors=True)
