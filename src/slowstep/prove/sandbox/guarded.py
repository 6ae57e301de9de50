"""Slowstep's side of the guard: starts it, hears what it says, and does its work where it is gone."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from slowstep.errors import CommandNotStarted
from slowstep.prove.sandbox.ending import LIMIT_S, end_all
from slowstep.prove.sandbox.guard import START_S
from slowstep.prove.sandbox.helper import helper
from slowstep.record.injection import inject

# The guard is given so much longer than what it does may take.
_GRACE_S: Final = 5.0
WATCHER_GONE: Final = "the process that watches over the script is gone, and the script with it"
TIME_OVER: Final = "the time limit of the whole experiment is over"
_CODES: Final[dict[int | None, Literal[125, 126, 127]]] = {126: CommandNotStarted.NOT_EXECUTABLE, 127: CommandNotStarted.NOT_FOUND}


class Guarded:
    """A command under a guard. `exit_code` is its own, None as long as it runs or when it was killed; `problem` is why it was, a clause."""

    def __init__(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        cwd: str,
        *,
        output: Path,
        variable: tuple[str, str],
        places: tuple[str, ...],
        limit_s: float,
    ) -> None:
        self._variable = variable
        self._job = {
            "argv": list(argv),
            "environ": dict(environ),
            "cwd": cwd,
            "output": str(output.absolute()),
            "variable": variable,
            "places": places,
            "limit_s": limit_s,
        }
        self._output = output
        self._guard: subprocess.Popen[bytes] | None = None
        self._heard = b""
        self._answer: dict[str, Any] | None = None
        self._left: list[int] | None = None
        self._is_ending = False
        self.exit_code: int | None = None
        self.problem: str | None = None

    def start(self) -> int:
        """Start guard and command; the command's process number. Raises CommandNotStarted."""
        # None of the command's variables: the guard is not to be found among its processes.
        environ = {name: value for name, value in os.environ.items() if name not in inject.SPOKEN}
        words, pipe = helper("slowstep.prove.sandbox.guard"), subprocess.PIPE
        try:
            with self._output.open("ab") as output:
                guard = subprocess.Popen(
                    words, stdin=pipe, stdout=pipe, stderr=output, env=environ, cwd="/", bufsize=0, start_new_session=True
                )
        except OSError as error:
            raise CommandNotStarted(f"the command cannot be watched over: {error}. It was not started.") from error
        self._guard = guard
        self._say(json.dumps(self._job).encode() + b"\n")
        deadline_s = time.monotonic() + START_S + _GRACE_S
        while self._answer is None and self._hear(deadline_s - time.monotonic()):
            pass
        answer = self._answer or {"refused": {"message": WATCHER_GONE}}
        if "refused" not in answer:
            return int(answer["pid"])
        code, message = answer["refused"].get("code"), answer["refused"]["message"]
        raise CommandNotStarted(message, exit_code=_CODES.get(code, CommandNotStarted.OWN_FAILURE))

    def listen(self) -> None:
        """Take in what the guard has said since; never waits."""
        while self._hear(0.0):
            pass

    def end(self) -> tuple[int | None, list[int]]:
        """Have everything killed, within a limit: the command's own exit code, if it had ended by itself, and what is left."""
        if self._guard is None:
            return None, []
        self.listen()
        self._is_ending = True
        self._say(b"end\n")
        deadline_s = time.monotonic() + LIMIT_S + _GRACE_S
        while self._left is None and self._hear(deadline_s - time.monotonic()):
            pass
        if self._left is None:
            self._guard.kill()
            self._left = end_all(set(), self._variable)
        self._close(self._guard)
        return self.exit_code, self._left

    def _close(self, guard: subprocess.Popen[bytes]) -> None:
        for pipe in (guard.stdin, guard.stdout):
            if pipe is not None:
                pipe.close()
        try:
            guard.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            guard.kill()
            guard.wait()

    def _say(self, words: bytes) -> None:
        assert self._guard is not None
        assert self._guard.stdin is not None
        try:
            self._guard.stdin.write(words)
        except OSError:
            pass  # it is gone, which shows where it is listened to

    def _hear(self, limit_s: float) -> bool:
        """Wait for a message and take it in; False where none came, or none will come any more."""
        assert self._guard is not None
        assert self._guard.stdout is not None
        while b"\n" not in self._heard:
            if not select.select([self._guard.stdout], [], [], max(limit_s, 0.0))[0]:
                return False
            part = os.read(self._guard.stdout.fileno(), 65536)
            if not part:
                # With it the command was killed, by the kernel.
                self.problem = self.problem or (None if self._is_ending else WATCHER_GONE)
                return False
            self._heard += part
        line, _, self._heard = self._heard.partition(b"\n")
        self._take_in(json.loads(line))
        return True

    def _take_in(self, message: dict[str, Any]) -> None:
        match message:
            case {"exit": int(code)} if not self._is_ending:
                self.exit_code = code
            case {"overdue": True}:
                self.problem, self._is_ending = TIME_OVER, True
            case {"left": list(left)}:
                # Unasked where somebody has told it to end.
                self.problem = self.problem or (None if self._is_ending else WATCHER_GONE)
                self._left = left
            case {"pid": _} | {"refused": _}:
                self._answer = message
            case _:
                pass
