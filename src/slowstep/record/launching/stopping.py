"""`--stop`: end the user's command as Ctrl-C would, and more firmly only when that does not help."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from typing import Final

from slowstep.record.system import processes

_ESCALATION: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


@dataclass(frozen=True, kw_only=True)
class StopLimits:
    """How long each signal is given to work, in seconds: the first one long enough for a checkpoint, or a last validation."""

    interrupt_s: float = 60.0
    terminate_s: float = 10.0
    kill_s: float = 5.0

    def after(self, stage: int) -> float:
        """Seconds given to the stage-th signal."""
        return (self.interrupt_s, self.terminate_s, self.kill_s)[stage]


@dataclass(kw_only=True)
class Stopper:
    """Ends a command step by step; `advance` is called again and again, and never waits."""

    root: int
    limits: StopLimits
    sent: list[str] = field(default_factory=list)
    gave_up: bool = False
    _members: set[tuple[int, int]] = field(default_factory=set)
    _next_s: float | None = None

    def advance(self, now_s: float) -> bool:
        """Send what is due now; whether nothing is left to wait for (all ended, or nothing helped)."""
        self._find_members()
        alive = processes.still_alive(self._members)
        if not alive:
            return True
        if self._next_s is None or now_s >= self._next_s:
            if len(self.sent) == len(_ESCALATION):
                self.gave_up = True
                return True
            self._send(alive, now_s)
        return False

    def _find_members(self) -> None:
        # Only who shares our group gets the terminal's Ctrl-C; who was once found stays found when its parent ends.
        own_group = os.getpgrp()
        for pid in processes.tree(self.root):
            stat = processes.read_stat(pid)
            if stat is not None and stat.group == own_group:
                self._members.add((pid, stat.start))

    def _send(self, alive: list[int], now_s: float) -> None:
        stage = len(self.sent)
        number = _ESCALATION[stage]
        for pid in alive:
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                pass
        self.sent.append(number.name)
        self._next_s = now_s + self.limits.after(stage)
