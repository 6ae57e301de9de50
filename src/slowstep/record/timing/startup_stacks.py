"""Where the main thread stands before anything is recorded: imports, indexing of data, building of the model."""

from __future__ import annotations

import threading
import time
from typing import Final

from slowstep.record.timing.other_threads import look_at
from slowstep.record.timing.stacks import Early, StackTable

# Four stacks a second name what takes a second of a start-up; one that is long is known by fewer.
_PERIOD_S: Final = 0.25
_PERIOD_LATER_S: Final = 1.0
_LATER_S: Final = 60.0
# A process that has not trained by then is waiting for something, or none that trains.
_END_S: Final = 900.0


class StartupStacks:
    """A daemon thread until `end` is called, or for a quarter of an hour. What it takes stays in memory: code, and no frames."""

    def __init__(self) -> None:
        self._main = threading.main_thread()
        self._ended = threading.Event()
        self._taken: list[Early] = []
        self._thread = threading.Thread(target=self._run, name="slowstep-startup", daemon=True)

    def start(self) -> None:
        """Begin; where the system refuses a thread, there is nothing to end."""
        try:
            self._thread.start()
        except RuntimeError:
            self._ended.set()

    def end(self) -> tuple[int, list[Early]]:
        """Native id of the main thread, and its stacks."""
        self._ended.set()
        return self._main.native_id or 0, self._taken

    def _run(self) -> None:
        # It meets no frame twice as the recording will number them: this one only walks them.
        places = StackTable(lambda note: None).places
        began = last_ns = time.monotonic_ns()
        ident = self._main.ident
        while not self._ended.wait(_PERIOD_S if last_ns - began < _LATER_S * 1e9 else _PERIOD_LATER_S):
            at_ns = time.monotonic_ns()
            if ident is None or at_ns - began > _END_S * 1e9:
                return
            try:
                found = look_at([ident], places).get(ident)
            except Exception:  # the start-up is not divided then; the script has no part in it
                return
            if found:
                self._taken.append((at_ns, at_ns - last_ns, found))
            last_ns = at_ns
