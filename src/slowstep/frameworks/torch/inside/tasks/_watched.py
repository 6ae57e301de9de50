"""The callables of a data set, timed in their places: what replaces them there, and what they have in common."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from slowstep.frameworks.torch.inside.tasks._calls import Segments
from slowstep.frameworks.torch.inside.tasks._cells import queue_clock
from slowstep.frameworks.torch.inside.tasks._slots import Slot
from slowstep.record.recorder import now

# The collate function, as a part in which built-in calls are counted; steps are known by their numbers.
COLLATE: Final = "collate"
# Calls that take so long are not timed the less exactly by two more looks at the kernel's clocks.
_LONG_NS: Final = 50_000


class CallTimer:
    """Times a callable, without the time in which the thread waits for a core.

    Of its `ns` the thread stood still for `still_ns`, and meanwhile other threads of the process computed for `others_ns`.
    """

    def __init__(self, bench: SharedTimers, part: Any = None) -> None:
        self._bench, self._part = bench, part
        self.ns = self.still_ns = self.others_ns = self.calls = 0

    def time(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function. Its exceptions pass."""
        bench = self._bench
        if bench.segments is not None:
            with bench.segments.inside(self._part):
                return function(*args, **kwargs)
        # Asking the kernel takes as long as a short call itself.
        is_long = self.ns >= _LONG_NS * self.calls
        self.calls += 1
        if is_long:
            return self._time_long(function, *args, **kwargs)
        began_ns = now()
        try:
            return function(*args, **kwargs)
        finally:
            self.ns += now() - began_ns

    def _time_long(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        delay_ns = self._bench.delay_ns
        waited_ns, process_ns, cpu_ns, began_ns = delay_ns(), time.process_time_ns(), time.thread_time_ns(), now()
        try:
            return function(*args, **kwargs)
        finally:
            spent_ns, used_ns = now() - began_ns, time.thread_time_ns() - cpu_ns
            self.others_ns += max(time.process_time_ns() - process_ns - used_ns, 0)
            spent_ns = max(spent_ns - delay_ns() + waited_ns, 0)
            self.ns += spent_ns
            self.still_ns += max(spent_ns - used_ns, 0)


class Step:
    """A callable of the data set, timed in its place."""

    def __init__(self, slot: Slot, bench: SharedTimers) -> None:
        self.slot, self._bench = slot, bench
        self.watch: CallTimer | None = None

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if self.watch is None:
            self.watch = CallTimer(self._bench, len(self._bench.order))
            self._bench.order.append(self)
        return self.watch.time(self.slot.original, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "slot").original, name)


class SharedTimers:
    """What the timed callables share: their order, and where their built-in calls are counted now."""

    def __init__(self) -> None:
        self.order: list[Step] = []
        self.collated = CallTimer(self, COLLATE)
        self.segments: Segments | None = None
        self.delay_ns = queue_clock()

    def spent_ns(self) -> list[int]:
        """What each step took so far, in their order."""
        return [step.watch.ns for step in self.order if step.watch is not None]

    def still_ns(self) -> tuple[int, int]:
        """How long steps and collate stood still so far, and what other threads of the process computed meanwhile."""
        watches = [self.collated, *(step.watch for step in self.order if step.watch is not None)]
        return sum(watch.still_ns for watch in watches), sum(watch.others_ns for watch in watches)


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
