"""The process between slowstep and the user's command. It starts the command in a session of its own and tells how it ends; orphans become
its children, so that nothing gets away; and when slowstep is gone or the time is over, it ends all of it, and removes the scratch of a
slowstep that cannot."""

from __future__ import annotations

import json
import math
import os
import select
import signal
import subprocess
import time
from typing import Any, Final

from slowstep.prove.sandbox import system
from slowstep.prove.sandbox.ending import end_all
from slowstep.prove.sandbox.inside import ENV_STATUS
from slowstep.prove.sandbox.removal import remove

# So long the start of a command may take, which includes making its root.
START_S: Final = 30.0
_INPUT: Final = 0
_OUTPUT: Final = 1
_END_SIGNALS: Final = frozenset((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))


def main() -> None:
    """Read the job from standard input (a line of JSON), and watch over it until that input ends, or says to end."""
    system.prctl(system.PR_SET_CHILD_SUBREAPER, 1)
    _Guard(json.loads(_read_line())).run()


class _Guard:
    def __init__(self, job: dict[str, Any]) -> None:
        self._job = job
        self._deadline_s = time.monotonic() + job["limit_s"]
        self._variable: tuple[str, str] = (job["variable"][0], job["variable"][1])
        self._is_asked = self._is_alone = self._is_told = False
        self._pid = 0
        self._poll = select.poll()
        self._poll.register(_INPUT, select.POLLIN)
        self._signals, write_end = os.pipe()
        self._poll.register(self._signals, select.POLLIN)
        for handle in (self._signals, write_end):
            os.set_blocking(handle, False)
        signal.set_wakeup_fd(write_end)
        for number in (signal.SIGCHLD, *_END_SIGNALS):
            signal.signal(number, lambda number, frame: None)
        # Its end of the pipe may live on in a child of it.
        self._parent = _pidfd(os.getppid())
        if self._parent is not None:
            self._poll.register(self._parent, select.POLLIN)

    def run(self) -> None:
        """Start, watch, end, and wait until slowstep has seen it or is gone."""
        self._start()
        while not (self._is_asked or self._is_alone or self._is_told or self._is_overdue()):
            self._look()
        _tell({"left": end_all({os.getpid()}, self._variable)})
        while not (self._is_asked or self._is_alone):
            self._look()
        if self._is_alone:
            for place in self._job["places"]:
                remove(place)

    def _start(self) -> None:
        job = self._job
        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        try:
            with open(job["output"], "ab", buffering=0) as output:
                self._pid = subprocess.Popen(
                    job["argv"],
                    env=job["environ"] | {ENV_STATUS: str(write_end)},
                    cwd=job["cwd"],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=(write_end,),
                    start_new_session=True,
                ).pid
        except OSError as error:
            _tell({"refused": {"code": 125, "message": f"It cannot be started in {job['cwd']}: {error}."}})
            self._is_told = True
            return
        finally:
            os.close(write_end)
        refused = _read_until_closed(read_end, START_S)
        if refused == b"":
            _tell({"pid": self._pid})
        else:
            late = {"code": 125, "message": f"It was not started within {START_S:.0f} s."}
            _tell({"refused": late if refused is None else json.loads(refused)})

    def _is_overdue(self) -> bool:
        if time.monotonic() < self._deadline_s:
            return False
        self._deadline_s = math.inf
        _tell({"overdue": True})
        return True

    def _look(self) -> None:
        """Wait for something to happen, and take note of it."""
        left_s = self._deadline_s - time.monotonic()
        ready = {handle for handle, _ in self._poll.poll(None if math.isinf(left_s) else max(left_s, 0.0) * 1000)}
        if self._signals in ready:
            self._is_told = self._is_told or not _END_SIGNALS.isdisjoint(os.read(self._signals, 4096))
        if _INPUT in ready:
            self._is_asked, self._is_alone = (True, self._is_alone) if os.read(_INPUT, 4096) else (self._is_asked, True)
        self._is_alone = self._is_alone or self._parent in ready
        self._collect()

    def _collect(self) -> None:
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self._pid:
                    code = os.waitstatus_to_exitcode(ended[1])
                    _tell({"exit": code if code >= 0 else 128 - code})
        except ChildProcessError:
            pass


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return None


def _read_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(_INPUT, 65536)
        if not part:
            raise SystemExit(2)
        line += part
    return line


def _read_until_closed(handle: int, limit_s: float) -> bytes | None:
    """What a pipe holds when it is closed; None where that takes too long."""
    deadline_s, read = time.monotonic() + limit_s, b""
    while select.select([handle], [], [], max(deadline_s - time.monotonic(), 0.0))[0]:
        part = os.read(handle, 65536)
        if not part:
            os.close(handle)
            return read
        read += part
    return None


def _tell(message: dict[str, Any]) -> None:
    try:
        os.write(_OUTPUT, json.dumps(message).encode() + b"\n")
    except OSError:
        pass  # slowstep is gone, which ends the watching
