"""What is due every so often, for a thread that looks now and then."""

from __future__ import annotations

from collections.abc import Callable


class Schedule:
    """Calls each of `tasks`, which come with their period in ns, where that has passed: in their order, all at the first look."""

    def __init__(self, *tasks: tuple[int, Callable[[], None]]) -> None:
        self._tasks = tasks
        self._last_ns = [0] * len(tasks)

    def look(self, at_ns: int) -> None:
        """Do what is due at this time of CLOCK_MONOTONIC; raises what a task raises, which then counts as done."""
        for number, (every_ns, task) in enumerate(self._tasks):
            if at_ns - self._last_ns[number] >= every_ns:
                self._last_ns[number] = at_ns
                task()
