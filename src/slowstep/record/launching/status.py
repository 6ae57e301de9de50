"""How far the recording is, while the user's command has the screen: the terminal's title, or lines where they were asked for."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slowstep.record.writing.control import ControlPage

_TITLE_EVERY_S: Final = 1.0
_LINE_EVERY_S: Final = 5.0
_STDERR: Final = 2
ENV_NO_TITLE: Final = "SLOWSTEP_NO_TITLE"
_OFF: Final = ("", "0", "false")


class Status:
    """Tells steps so far in a thread of its own (a terminal can stop its writers): in the title of a terminal, or as lines."""

    def __init__(self, page: ControlPage, *, lines: bool, title: bool = True) -> None:
        self._page = page
        self._lines = lines
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        if lines or (title and has_title(os.environ)):
            self._thread = threading.Thread(target=self._run, name="slowstep-status", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread and give the terminal its title back."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout=1.0)
            self._thread = None

    def _run(self) -> None:
        if self._lines:
            while not self._stopped.wait(_LINE_EVERY_S):
                _write(f"slowstep: {self._text()}\n")
            return
        # Titles are kept on a stack by most terminals; others ignore the two sequences.
        _write("\033[22;2t", to_terminal=True)
        while not self._stopped.wait(_TITLE_EVERY_S):
            _write(f"\033]2;slowstep: {self._text()}\007", to_terminal=True)
        _write("\033[23;2t", to_terminal=True)

    def _text(self) -> str:
        updates, first_ns = self._page.updates, self._page.first_update_ns
        if not updates or first_ns is None:
            return "no training step seen yet"
        elapsed_s = (time.monotonic_ns() - first_ns) / 1e9
        rate = f", {(updates - 1) / elapsed_s:.1f} steps/s" if updates > 1 and elapsed_s > 0 else ""
        return f"{updates} steps recorded{rate}"


def has_title(environ: Mapping[str, str]) -> bool:
    """Whether standard error is a terminal with a title that somebody sees: a log that is made through one holds the sequences for good."""
    is_unwanted = any(environ.get(name, "").lower() not in _OFF for name in (ENV_NO_TITLE, "CI"))
    return not is_unwanted and os.isatty(_STDERR) and environ.get("TERM", "dumb") not in ("dumb", "linux")


def _write(text: str, *, to_terminal: bool = False) -> None:
    try:
        # In the background a write could stop this process.
        if to_terminal and os.tcgetpgrp(_STDERR) != os.getpgrp():
            return
        os.write(_STDERR, text.encode())
    except OSError:
        pass
