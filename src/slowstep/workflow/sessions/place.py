"""Where a session runs: a notebook, IPython, Python's own prompt, or a script; each shows things in its own way."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from slowstep.record.timing.tracebacks import clean
from slowstep.record.writing.format import IN_SCRIPT


class SessionPlace:
    """A script: nothing is shown by itself, there are no cells, and nobody is asked for anything."""

    is_interactive = False
    words = IN_SCRIPT

    @property
    def name(self) -> str:
        """A short name for the run's folder."""
        script = getattr(sys.modules.get("__main__"), "__file__", None)
        return os.path.splitext(os.path.basename(script))[0] if isinstance(script, str) else "python"

    def cells(self) -> dict[str, int]:
        """The numbers of cells by the names of their files."""
        return {}

    def enter(self, on_prompt: Callable[[], None]) -> None:
        """Call `on_prompt` whenever the user is asked for the next command, until `leave`."""

    def leave(self) -> None:
        """Leave nothing of ours behind."""


class Prompt(SessionPlace):
    """Python's own prompt. It asks for the text of `sys.ps1` each time it waits for a command: an object may stand there."""

    is_interactive = True
    words = "an interactive session"
    name = "python"

    def __init__(self) -> None:
        self._before: Any = None
        self._ours: Any = None

    def enter(self, on_prompt: Callable[[], None]) -> None:
        """Have the prompt tell when it is shown."""
        self._before = getattr(sys, "ps1", None)
        if self._before is not None:
            self._ours = sys.ps1 = _TellingPrompt(self._before, on_prompt)

    def leave(self) -> None:
        """Put the prompt back, unless the user has another one now."""
        if self._ours is not None and getattr(sys, "ps1", None) is self._ours:
            sys.ps1 = self._before
        self._ours = None


class _TellingPrompt:
    def __init__(self, text: object, on_prompt: Callable[[], None]) -> None:
        self._text, self._on_prompt = text, on_prompt

    def __str__(self) -> str:
        try:
            self._on_prompt()
        except Exception:  # noqa: BLE001 - the border: the user's prompt comes whatever happens to our note of it
            pass
        return str(self._text)


class IPythonShell(SessionPlace):
    """IPython in a terminal or behind a notebook. Its `showtraceback` leaves out our frames while we record."""

    is_interactive = True

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.is_notebook = hasattr(shell, "kernel")
        self.words = "a notebook" if self.is_notebook else "an IPython session"
        self._on_prompt: Callable[..., None] | None = None

    @property
    def name(self) -> str:
        """The notebook's name where the server says it."""
        path = os.environ.get("JPY_SESSION_NAME") or self.shell.user_ns.get("__vsc_ipynb_file__") or ""
        stem = os.path.splitext(os.path.basename(str(path)))[0]
        return stem or ("notebook" if self.is_notebook else "ipython")

    def cells(self) -> dict[str, int]:
        """The numbers of cells by the names of their files, as IPython gives them in tracebacks."""
        return dict(getattr(self.shell.compile, "_filename_map", {}))

    def enter(self, on_prompt: Callable[[], None]) -> None:
        """Listen for the ends of cells, and clean tracebacks."""

        def ended(*_: Any) -> None:
            on_prompt()

        self._on_prompt = ended
        self.shell.events.register("post_run_cell", ended)
        original = self.shell.showtraceback

        def showtraceback(*args: Any, **kwargs: Any) -> Any:
            clean(sys.exc_info()[1])
            return original(*args, **kwargs)

        if "showtraceback" not in vars(self.shell):
            self.shell.showtraceback = self._shows = showtraceback

    def leave(self) -> None:
        """Listen no more."""
        if self._on_prompt is not None:
            self.shell.events.unregister("post_run_cell", self._on_prompt)
            self._on_prompt = None
        if vars(self.shell).get("showtraceback") is getattr(self, "_shows", self):
            del self.shell.showtraceback


def find_session_place() -> SessionPlace:
    """Where this process stands. Imports nothing: IPython is asked only where it runs."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is not None:
        return IPythonShell(shell)
    return Prompt() if hasattr(sys, "ps1") else SessionPlace()
