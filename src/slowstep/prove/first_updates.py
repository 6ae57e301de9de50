"""The start of a sandboxed training: its first updates are waited for, and for no longer than somebody would."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from slowstep.prove.executor import Executor, Progress

# Beyond it nobody waits: a script that loads its data for so long needs a smaller try.
START_S: Final = 300.0
# Said of a script that failed before it trained: what reads there fails here alone.
EMPTY_INPUT: Final = "its standard input is empty here"
# Told until there is one.
FIRST_STEP: Final = "waiting for the first training step"
_TICK_S: Final = 0.1


class NeverTrained(Exception):
    """No update came in time; the message says in which."""


def start_up(
    executor: Executor, start_s: float, *, clock: Callable[[], float], sleep: Callable[[float], None]
) -> Iterator[tuple[Progress, float | None]]:
    """How far the training is, ten times a second for as long as it runs, and the seconds since its first update (None before it).

    Raises NeverTrained where that does not come within `start_s` seconds.
    """
    began_s = clock()
    while (progress := executor.poll()).alive:
        trained_s = progress.training_s if progress.updates else None
        if trained_s is None and clock() - began_s > start_s:
            raise NeverTrained(f"no training step was seen in {start_s:.0f} s")
        yield progress, trained_s
        sleep(_TICK_S)
