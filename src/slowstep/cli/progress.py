"""A progress bar on a terminal, for whatever takes over a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

# Quicker than this, a bar would only flicker.
_SHOWN_AFTER_S: Final = 1.0
# How often the bar is looked at again.
_EVERY_S: Final = 0.1


@contextmanager
def progress_on(stream: TextIO) -> Iterator[Callable[[float], None]]:
    """What to call with the share done, 0 to 1. Nothing is drawn where the stream is no terminal; nothing is left on it at the end."""
    if not stream.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("reading"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(file=stream), transient=True)
    task = bar.add_task("reading", total=1.0)
    began = drawn = time.monotonic()

    def tell(share: float) -> None:
        nonlocal drawn
        at = time.monotonic()
        if at - began < _SHOWN_AFTER_S or at - drawn < _EVERY_S:
            return
        drawn = at
        if not bar.live.is_started:
            bar.start()
        bar.update(task, completed=min(max(share, 0.0), 1.0))

    try:
        yield tell
    finally:
        if bar.live.is_started:
            bar.stop()
