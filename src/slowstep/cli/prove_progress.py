"""What `slowstep prove` tells while it goes on: a bar on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from slowstep.harmless import harmless
from slowstep.report.streams import print_line
from slowstep.workflow.progress import Tell

# Lines are for logs: so often that one sees it is alive, so seldom that it is no nuisance.
_LINE_EVERY_S: Final = 15.0
_DRAWN_EVERY_S: Final = 0.2


@contextmanager
def tell_on(stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> Iterator[Tell]:
    """Tell on a stream; nothing of a bar is left on it at the end."""
    if stream.isatty():
        with _bar(stream, clock) as tell:
            yield tell
    else:
        yield Tell(say=lambda text: _print(stream, text), phase=_PhaseLines(stream, clock).phase)


class _PhaseLines:
    """A line where a phase begins, and one every few seconds in it."""

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self._stream, self._clock = stream, clock
        self._name, self._told_s = "", 0.0

    def phase(self, name: str, share: float, reached: str) -> None:
        now_s = self._clock()
        if name == self._name and now_s - self._told_s < _LINE_EVERY_S:
            return
        self._name, self._told_s = name, now_s
        _print(self._stream, f"{name}: {reached}")


@contextmanager
def _bar(stream: TextIO, clock: Callable[[], float]) -> Iterator[Tell]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    console = Console(file=stream)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[reached]}"))
    drawn_s = -1.0
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task("starting", total=1.0, reached="")

        def phase(name: str, share: float, reached: str) -> None:
            nonlocal drawn_s
            now_s = clock()
            if now_s - drawn_s >= _DRAWN_EVERY_S:
                drawn_s = now_s
                bar.update(task, description=escape(harmless(name)), completed=share, reached=escape(harmless(reached)), refresh=True)

        yield Tell(say=lambda text: console.print(harmless(text, lines=True), markup=False, highlight=False, soft_wrap=True), phase=phase)


def _print(stream: TextIO, text: str) -> None:
    try:
        print_line(text, stream)
    except (OSError, ValueError):  # whoever listened has gone; the experiment is worth ending all the same
        pass
