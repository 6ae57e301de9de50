"""Tells whether a signal was sent to the whole process group or to slowstep alone.

Schedulers and `timeout` signal the whole group: the command has such a signal already, and a second one could end its clean-up.
`docker stop` and `kill PID` reach only slowstep: those must be passed on. The kernel does not say which it was, so a silent process
of the same group (a `cat` on a pipe that never speaks, with these signals blocked) shows whether it has the signal too.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

# Some schedulers signal process after process.
_SETTLE_S: Final = 0.05


class GroupProbe:
    """A silent process beside the command. Ends with this process, even when that is killed: its pipe breaks."""

    def __init__(self, blocked: Collection[int]) -> None:
        self._blocked = set(blocked)
        self._pid: int | None = None
        self._pipe: int | None = None
        self._start()

    def has_also(self, number: int) -> bool:
        """Whether the probe was sent the signal too; False where that is not known."""
        time.sleep(_SETTLE_S)
        also = self._pid is not None and bool(_pending(self._pid) >> (number - 1) & 1)
        if also:
            # What is pending stays so: the next signal needs a fresh probe.
            self.close()
            self._start()
        return also

    def close(self) -> None:
        """End the probe."""
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None
        if self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = None

    def _start(self) -> None:
        program = shutil.which("cat", path=os.defpath)
        if program is None or not os.path.exists("/proc/self/status"):
            return
        silent, self._pipe = os.pipe()
        # Its own streams only: whoever reads the command's output waits for all its writers.
        actions = [(os.POSIX_SPAWN_DUP2, silent, 0), (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0), (os.POSIX_SPAWN_DUP2, 1, 2)]
        try:
            self._pid = os.posix_spawn(program, ["cat"], {}, file_actions=actions, setsigmask=self._blocked)
        except OSError:
            self.close()
        finally:
            os.close(silent)


def _pending(pid: int) -> int:
    """The bits of the signals that wait for a process as a whole."""
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            for line in status:
                if line.startswith(b"ShdPnd:"):
                    return int(line.split()[1], 16)
    except OSError:
        pass
    return 0
