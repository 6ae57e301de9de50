"""What a script can say itself: `steps(loader)` for input that cannot be hooked, and `span(name)` for a named span of time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from time import process_time_ns, thread_time_ns
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from slowstep.health import HealthKind
from slowstep.record.active import active
from slowstep.record.attributes import held_by
from slowstep.record.hook import RECORDS_WAITS
from slowstep.record.recorder import now
from slowstep.record.steps.cpu_marks import build_marks
from slowstep.record.timing.batches import samples_in
from slowstep.record.timing.call_times import PASSED, CallTimes
from slowstep.record.timing.tracebacks import hide_own_frames
from slowstep.record.writing.fastpath import TINY_NS
from slowstep.record.writing.format import END, FAILED, FETCH, FETCH_DELAY, FIRST_OF_STEPS, PROFILED, READY_UNKNOWN, SPAN, VALIDATION, WAIT
from slowstep.stages import STAGES

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder
    from slowstep.record.writing.threads import ThreadState

T = TypeVar("T")
UNKNOWN_STAGE: Final = HealthKind("unknown-stage", "notice", "slowstep.span takes one of {stages}; counted as output")
_NOTHING: Final[AbstractContextManager[None]] = nullcontext()
# CPU time of this thread and of the process, and this thread's run-queue delay (None unknown), ns.
_Reading = tuple[int, int, int | None]
_numbers = [FIRST_OF_STEPS]


def steps(loader: Iterable[T]) -> Iterator[T]:
    """Iterate over any input and have the waiting for each batch recorded; without a recording it is `iter(loader)`.

    A framework's own loader needs no `steps`, and is not recorded twice: where the input reads one, its wait is taken to be this one.
    """
    recorder = active()
    if recorder is None or _is_hooked(loader):
        return iter(loader)
    return RecordedWaits(recorder, iter(loader), dataset=type(loader).__qualname__, is_marked=True)


def span(name: str, stage: str = "output") -> AbstractContextManager[None]:
    """Name a span of time and the stage that it belongs to; without a recording it does nothing. An unknown stage counts as `output`."""
    recorder = active()
    return _NOTHING if recorder is None else _Span(recorder, name, stage)


def new_number() -> int:
    """A number for an iterator, or for what several are made of."""
    _numbers[0] += 1
    return _numbers[0]


def _is_hooked(loader: Any) -> bool:
    iterate = getattr(type(loader), "__iter__", None)
    return held_by(iterate, RECORDS_WAITS) is True


class RecordedWaits(Iterator[T]):
    """An iterator whose waits are recorded; `loader` is the same number for all iterators over one data set.

    `framework` is the name of the one whose loader it is, `is_marked` says that a script names it by `steps`.
    """

    # What is raised where there are no more batches.
    ends: tuple[type[BaseException], ...] = (StopIteration,)

    def __init__(
        self,
        recorder: Recorder,
        batches: Iterator[T],
        *,
        dataset: str,
        loader: int | None = None,
        framework: str | None = None,
        is_marked: bool = False,
    ) -> None:
        self._recorder = recorder
        self._batches = batches
        self._mark, _ = build_marks(recorder)
        self._calls = recorder.shared(RequestCalls)
        # How long the last request took that nobody else looks into.
        self._last_ns = 0
        self._count = 0
        self._lent: tuple[int, int, int, int] | None = None
        self._number = new_number()
        recorder.ensure_open()
        recorder.watch()
        note = {"kind": "iterator", "id": self._number, "loader": loader or self._number, "num_workers": 0, "workers": []}
        of = {} if framework is None else {"framework": framework}
        recorder.note({**note, **of, "marked": is_marked, "dataset": dataset, "batch_size": None})

    def __next__(self) -> T:
        recorder, me = self._recorder, self._recorder.local.me
        outer, me.borrower, self._lent, me.quick = me.borrower, self, None, None
        before = _read(me) if me.marking and not me.judging else None
        for told in recorder.before_waits:
            told()
        t0 = now()
        timed, has_failed = outer is None and not me.judging and self._calls.begin(t0, self._last_ns), False
        try:
            batch = next(self._batches)
        except BaseException as error:  # passed on: the end of the data, the user's own error, or Ctrl-C
            me.borrower = outer
            ended = isinstance(error, self.ends)
            has_failed = not ended
            if not ended:
                hide_own_frames()
            if outer is None:
                flags = (END if ended else FAILED) | VALIDATION * bool(me.judging)
                recorder.event(WAIT, t0, now(), self._number, -1, -1, flags, READY_UNKNOWN)
            raise
        finally:
            if timed:
                self._calls.end(now(), keep=not has_failed and self._lent is None)
            for told in recorder.after_waits:
                told()
        me.borrower = outer
        try:
            t1 = now()
            self._record(batch, t0, t1, before, outer, PROFILED * timed)
        except Exception as error:  # the border: counted, and never raised into the training
            recorder.fault(error)
        return batch

    def _record(self, batch: Any, t0: int, t1: int, before: _Reading | None, outer: Any, flags: int) -> None:
        """What came; `outer` is the wait that this one is inside of, if it is: they are one, and are written once."""
        is_lent = self._lent is not None
        self._last_ns = 0 if is_lent else t1 - t0
        number, index, samples, ready = self._lent or (self._number, self._count, -1, READY_UNKNOWN)
        self._count += 1
        found = self.samples_of(batch)
        me = self._recorder.local.me
        if before is not None and not is_lent:
            self._record_fetch(me, t0, t1, index, before, flags)
        samples = samples if found < 0 else found
        if outer is None:
            self._recorder.event(WAIT, t0, t1, number, index, samples, VALIDATION * bool(me.judging), ready)
        elif type(outer) is not type(self):
            # What a loader reads of another one of its kind is not what the training reads.
            outer.lend(number, index, samples, ready)
        if me.judging:
            return
        me.waits += 1
        if me.marking:
            self._mark(me, t1)
        if me.when_received is not None:
            me.when_received(me)

    def samples_of(self, batch: Any) -> int:
        """How many a batch has; -1 where that is not known."""
        return samples_in(batch)

    def _record_fetch(self, me: ThreadState, t0: int, t1: int, index: int, before: _Reading, flags: int) -> None:
        """What this thread, and others beside it, did meanwhile: who makes the batch is for the analysis to tell."""
        thread_ns, process_ns, delay_ns = _read(me)
        # The clocks of the thread and of the process are read around the other one.
        used_ns = min(thread_ns - before[0], t1 - t0)
        waited_ns = -1 if delay_ns is None or before[2] is None else delay_ns - before[2]
        self._recorder.event(FETCH, t0, t1, index, -1, used_ns, flags)
        self._recorder.event(FETCH_DELAY, t0, t1, max(process_ns - before[1] - used_ns, 0), waited_ns, self._number)

    def lend(self, number: int, index: int, samples: int, ready: int) -> None:
        """Called by the loader's hook inside this wait: what it would have recorded of its own."""
        self._lent = (number, index, samples, ready)


def _read(me: ThreadState) -> _Reading:
    # In this order: asking for the CPU time brings the kernel's figures up to date.
    return thread_time_ns(), process_time_ns(), me.delay_ns()


class _Span(AbstractContextManager[None]):
    """A named span of time."""

    def __init__(self, recorder: Recorder, name: str, stage: str) -> None:
        self._recorder, self._name, self._stage = recorder, name, stage
        self._begin_ns = 0

    def __enter__(self) -> None:
        self._begin_ns = now()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        t1, recorder = now(), self._recorder
        try:
            stage = self._stage if self._stage in STAGES else "output"
            text = recorder.text_id(str(self._name))
            recorder.event(SPAN, self._begin_ns, t1, text, STAGES.index(stage), 0, FAILED if error is not None else 0)
            if stage != self._stage:
                recorder.health(UNKNOWN_STAGE, stages=", ".join(STAGES))
        except Exception as fault:  # the border: counted, and never raised into the training
            recorder.fault(fault)


class RequestCalls:
    """Times the calls of a few requests that no loader's hook sees.

    They say which function makes what `next()` gives, where this thread does; one object for all iterators of a process whose requests are
    recorded as waits. Not of requests that a hooked loader answers, which looks itself, nor of short ones, and never beside somebody's
    profiler.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._calls = CallTimes("request", recorder.note, passed=PASSED)
        recorder.forgetters.append(self._calls.forget)

    def begin(self, at_ns: int, last_ns: int) -> bool:
        """Begin to time calls, where the request before took `last_ns` and it is this one's turn; whether it has. Raises nothing."""
        if last_ns < TINY_NS or not self._recorder.level:
            return False
        try:
            return self._calls.begin(at_ns)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)
            return False

    def end(self, at_ns: int, *, keep: bool) -> None:
        """End it; `keep` what was timed of a request that brought a batch of its own. Raises nothing."""
        try:
            self._calls.end(at_ns, keep=keep)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)
