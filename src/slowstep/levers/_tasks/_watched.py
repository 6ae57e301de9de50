"""The callables of a data set, timed in their places: what replaces them there, and what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from slowstep.levers._tasks._calls import Segments
from slowstep.levers._tasks._cells import queue_clock
from slowstep.levers._tasks._slots import Slot
from slowstep.record.recorder import now

# Calls that take so long are not timed the less exactly by two more looks at the kernel's clocks.
_LONG_NS: Final = 50_000


class Watch:
    """Times a callable, without the time in which the thread waits for a core."""

    def __init__(self, bench: Bench, part: Any = None) -> None:
        self._bench, self._part = bench, part
        self.ns = self.calls = 0

    def time(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function. Its exceptions pass."""
        bench = self._bench
        if bench.segments is not None:
            with bench.segments.inside(self._part):
                return function(*args, **kwargs)
        self.calls += 1
        # Asking the kernel takes as long as a short call itself.
        delay_ns = bench.delay_ns if self.ns >= _LONG_NS * self.calls else int
        waited_ns, began_ns = delay_ns(), now()
        try:
            return function(*args, **kwargs)
        finally:
            spent_ns = now() - began_ns
            self.ns += max(spent_ns - delay_ns() + waited_ns, 0)


class Step:
    """A callable of the data set, timed in its place."""

    def __init__(self, slot: Slot, bench: Bench) -> None:
        self.slot, self._bench = slot, bench
        self.watch: Watch | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.watch is None:
            self.watch = Watch(self._bench, len(self._bench.order))
            self._bench.order.append(self)
        return self.watch.time(self.slot.original, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "slot").original, name)


class Bench:
    """What the timed callables share: their order, and where their built-in calls are counted now."""

    def __init__(self) -> None:
        self.order: list[Step] = []
        self.segments: Segments | None = None
        self.delay_ns = queue_clock()

    def spent_ns(self) -> list[int]:
        """What each step took so far, in their order."""
        return [step.watch.ns for step in self.order if step.watch is not None]


@contextmanager
def in_place(steps: list[Step]) -> Iterator[None]:
    """The steps in the places of their callables; those that cannot be put there are left as they are."""
    placed: list[Step] = []
    try:
        for step in steps:
            try:
                step.slot.put(step)
                placed.append(step)
            except Exception:  # the script's own object takes nothing in that place: it is timed as a whole
                continue
        yield
    finally:
        for step in reversed(placed):
            step.slot.restore()


@contextmanager
def without(steps: list[Step]) -> Iterator[None]:
    """Some steps hand on what they were given."""
    left: list[Step] = []
    try:
        for step in steps:
            step.slot.put(_hand_on)
            left.append(step)
        yield
    finally:
        for step in left:
            step.slot.put(step)


def _hand_on(*args: Any, **kwargs: Any) -> Any:
    if kwargs and not args:
        return kwargs
    return args[0] if len(args) == 1 else args
