"""Which processes a command started: what the message shows when no training was recorded in any of them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Final

from slowstep.record.system import processes
from slowstep.record.system.redact import redact_command
from slowstep.record.writing import format as contract

_MOST: Final = 64
_EAGER_S: Final = 2.0
_EAGER_PAUSE_S: Final = 0.1
_LATER_PAUSE_S: Final = 2.0
_PYTHON: Final = re.compile(r"python[\d.]*\Z")
# Options of Python under which it reads neither PYTHONPATH nor sitecustomize.
_DEAF: Final = re.compile(r"-[a-zA-Z]*[IES]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenProcess:
    """A process of the command: its words (redacted), how deep below the command, and why it could not be reached, if it could not."""

    pid: int
    depth: int
    argv: tuple[str, ...]
    unreachable: str | None


class Witness:
    """Looks at the command's processes now and then until a training shows itself."""

    def __init__(self, root: int, argv: tuple[str, ...]) -> None:
        self._root = root
        self._started_s: float | None = None
        self._due_s = 0.0
        self._seen: dict[int, SeenProcess] = {root: _describe(root, 0, argv)}

    @property
    def seen(self) -> tuple[SeenProcess, ...]:
        """All processes seen so far, in the order in which they appeared."""
        return tuple(self._seen.values())

    def look(self, now_s: float) -> None:
        """Look again when that is due."""
        if self._started_s is None:
            self._started_s = now_s
        if now_s < self._due_s:
            return
        self._due_s = now_s + (_EAGER_PAUSE_S if now_s - self._started_s < _EAGER_S else _LATER_PAUSE_S)
        depth = {self._root: 0}
        for pid in processes.tree(self._root):
            stat = processes.read_stat(pid)
            depth[pid] = depth.get(stat.parent, 0) + 1 if stat is not None and pid != self._root else 0
            argv = tuple(processes.command_line(pid))
            if argv and (pid in self._seen or len(self._seen) < _MOST):
                self._seen[pid] = _describe(pid, depth[pid], argv)


def _describe(pid: int, depth: int, argv: tuple[str, ...]) -> SeenProcess:
    return SeenProcess(pid=pid, depth=depth, argv=tuple(redact_command(argv)), unreachable=_why_unreachable(pid, argv))


def _why_unreachable(pid: int, argv: tuple[str, ...]) -> str | None:
    if not _PYTHON.match(os.path.basename(argv[0])):
        return None
    for word in argv[1:]:
        if not word.startswith("-") or word in ("-c", "-m", "-"):
            break
        if _DEAF.match(word):
            return f"started with {word}, which makes Python ignore PYTHONPATH"
    if processes.read_stat(pid) is not None and not processes.holds_variable(pid, contract.ENV_RECORDING):
        return "started without the environment of the command"
    return None
