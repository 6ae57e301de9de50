"""Times the parts of making a batch on the training thread, without workers: data set, each transform, collate."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Any, Final

from slowstep.frameworks.torch.inside.tasks._again import LoaderAgain, is_stream
from slowstep.frameworks.torch.inside.tasks._calls import Segments
from slowstep.frameworks.torch.inside.tasks._plain import plain
from slowstep.frameworks.torch.inside.tasks._slots import find_slots
from slowstep.frameworks.torch.inside.tasks._watched import SharedTimers, Step, in_place, without
from slowstep.record.experiment.loader_reading import said
from slowstep.record.recorder import now

# So many batches are timed though the time is over, in at most so many times the time.
LEAST_BATCHES: Final = 4
OVERTIME: Final = 3.0
# Calls of built-in functions are timed in one batch of so many: those take longer.
_PROFILED_EVERY: Final = 3
# Left out in turn, from the last one on.
MOST_LEFT_OUT: Final = 8
# Columns of a row of Parts before those of the steps.
_BEFORE_STEPS: Final = 8
# The data set itself, as a part in which built-in calls are counted.
BASE: Final = "base"


@dataclass(slots=True)
class Parts:
    """What was timed. A row is one batch: samples; wall, CPU, run-queue ns; CPU ns of other threads; the ns that steps and collate stood
    still, and the CPU ns of other threads meanwhile; collate's ns; each step's ns. Time in which the thread waited for a core is in the
    wall only.

    `steps` are the transforms in the order of their first calls. `left_out` has rows of one batch: samples, then the ns of making them as
    it is, without the last step, without the last two ..., until `left_out_reason`. `calls`: see Segments.counted; by step, BASE, COLLATE.
    """

    steps: list[str] = field(default_factory=list)
    rows: list[list[int]] = field(default_factory=list)
    left_out: list[list[int]] = field(default_factory=list)
    left_out_reason: str | None = None
    calls: dict[str, Any] = field(default_factory=dict)
    calls_samples: int = 0
    calls_reason: str | None = None
    reason: str | None = None


def time_parts(loader: Any, *, seconds: float, one_thread: bool, until_ns: int | None = None) -> Parts:
    """Time batches of a loader for some seconds, one part after the other. Whatever the user's code raises ends it, as the `reason`.

    `one_thread`: use one thread of torch, as a worker does. `until_ns`: no batch begins later than that, but for the first.
    """
    parts, bench = Parts(), SharedTimers()
    try:
        again = LoaderAgain(loader, 0)
        steps = [Step(slot, bench) for slot in find_slots(loader.dataset)]
        with _threads(1 if one_thread else None), in_place(steps):
            _Timing(again, bench, parts, is_stream(loader), int(seconds * 1e9), until_ns).run()
    except Exception as error:  # the script's own transforms raise whatever they like: said as the reason
        parts.reason = said(error)
    return parts


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    torch = sys.modules["torch"]
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Timing:
    """The rounds: a batch timed by parts, the same batch without the last transforms, and now and then with its built-in calls timed."""

    def __init__(self, again: LoaderAgain, bench: SharedTimers, parts: Parts, is_stream: bool, limit_ns: int, until_ns: int | None) -> None:
        self._bench, self._parts, self._is_stream, self._limit_ns, self._until_ns = bench, parts, is_stream, limit_ns, until_ns
        self._again = again
        self._segments = Segments(bench.delay_ns)
        self._begin()

    def run(self) -> None:
        """All rounds. Raises what the data set raises as it is."""
        began_ns, rounds, epoch = now(), 0, 0
        while (spent_ns := now() - began_ns) < self._limit_ns or rounds < LEAST_BATCHES:
            if rounds and (spent_ns > OVERTIME * self._limit_ns or (self._until_ns is not None and now() > self._until_ns)):
                break
            try:
                index = next(self._indices)
                self._time(index)
                if rounds % _PROFILED_EVERY == 0:
                    self._count_calls(index)
            except StopIteration:
                # A stream has ended; one that gives nothing when it is asked again has ended for good.
                if len(self._parts.rows) == epoch:
                    break
                epoch = len(self._parts.rows)
                self._begin()
                continue
            rounds += 1
            self._leave_out(index, rounds)
        if not self._parts.rows:
            raise ValueError("the data set gave no batch")
        self._close()

    def _begin(self) -> None:
        iterator = self._again.start()
        self._indices, self._fetcher = iterator._sampler_iter, iterator._dataset_fetcher
        self._fetcher.collate_fn = partial(self._bench.collated.time, self._fetcher.collate_fn)
        self._fetch = plain(type(self._fetcher).fetch)

    def _time(self, index: Any) -> None:
        bench = self._bench
        before, still_before, collated_ns = bench.spent_ns(), bench.still_ns(), bench.collated.ns
        delay_ns, process_ns, cpu_ns, began_ns = bench.delay_ns(), time.process_time_ns(), time.thread_time_ns(), now()
        self._fetch(self._fetcher, index)
        wall_ns, used_ns = now() - began_ns, time.thread_time_ns() - cpu_ns
        others_ns = max(time.process_time_ns() - process_ns - used_ns, 0)
        waited_ns = bench.delay_ns() - delay_ns
        steps = [after - start for after, start in zip_longest(bench.spent_ns(), before, fillvalue=0)]
        still = [after - start for after, start in zip(bench.still_ns(), still_before, strict=True)]
        collated_ns = bench.collated.ns - collated_ns
        self._parts.rows.append([_samples(index), wall_ns, used_ns, waited_ns, others_ns, *still, collated_ns, *steps])

    def _count_calls(self, index: Any) -> None:
        self._bench.segments = self._segments
        try:
            with self._segments.inside(BASE):
                self._fetch(self._fetcher, index)
            self._segments.samples += _samples(index)
        finally:
            self._bench.segments = None

    def _leave_out(self, index: Any, turn: int) -> None:
        """The same samples as they are, and without their last transforms, in an order that changes from batch to batch."""
        steps = self._bench.order
        if self._is_stream or not steps or self._parts.left_out_reason is not None or type(index) is not list:
            return
        most = min(len(steps), MOST_LEFT_OUT)
        times = [0] * (most + 1)
        for turned in range(most + 1):
            count = (turned + turn) % (most + 1)
            try:
                with without(steps[len(steps) - count :]):
                    times[count] = self._make(index)
            except Exception as error:  # the script's own transforms raise whatever they like: said as the reason
                gone = ", ".join(step.slot.name for step in steps[len(steps) - count :])
                self._parts.left_out_reason = f"without {gone} the data set fails ({said(error)})"
                return
        self._parts.left_out.append([len(index), *times])

    def _make(self, index: list[Any]) -> int:
        """The samples of one batch, uncollated: ns without waiting for a core."""
        dataset, delay_ns = self._fetcher.dataset, self._bench.delay_ns
        make: Callable[[list[Any]], Any] | None = getattr(dataset, "__getitems__", None)
        waited_ns, began_ns = delay_ns(), now()
        if make:
            make(index)
        else:
            _ = [dataset[number] for number in index]
        return max(now() - began_ns - delay_ns() + waited_ns, 0)

    def _close(self) -> None:
        parts, order = self._parts, self._bench.order
        parts.steps = [step.slot.name for step in order]
        # A step that was first called later took nothing before.
        width = _BEFORE_STEPS + len(order)
        parts.rows = [[*row, *[0] * (width - len(row))] for row in parts.rows]
        parts.calls = {str(part): kinds for part, kinds in self._segments.counted().items()}
        parts.calls_samples, parts.calls_reason = self._segments.samples, self._segments.reason


def _samples(index: Any) -> int:
    return len(index) if isinstance(index, (list, tuple)) else 1
