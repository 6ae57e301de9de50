"""Measures the making of one batch, with everything that tells computing from waiting: CPU time, run-queue delay, bytes read."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.torch.inside._answers.compiled import has_compiled
from slowstep.frameworks.torch.inside._framework import FRAMEWORK
from slowstep.frameworks.torch.inside._loader.batch_form import batch_form
from slowstep.frameworks.torch.inside._loader.slow_samples import TimedIndices, count_made, record_slow, timed_indices
from slowstep.record.recorder import now
from slowstep.record.timing.batches import bytes_in
from slowstep.record.timing.builtin_calls import EARLY as BUILTINS_EARLY
from slowstep.record.timing.builtin_calls import SHARE as BUILTINS_SHARE
from slowstep.record.timing.builtin_calls import builtin_rows
from slowstep.record.timing.call_times import PASSED, CallTimes, others_profile
from slowstep.record.timing.line_counts import LineCounts
from slowstep.record.timing.read_looks import ReadLooks
from slowstep.record.writing.fastpath import TINY_NS
from slowstep.record.writing.format import COLLATE, FAILED, FETCH, FETCH_DELAY, FETCH_IO, PROFILED
from slowstep.record.writing.threads import ThreadState

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# Measuring takes 9 us: half a percent of a fetch of 1.8 ms. Shorter ones are measured once in so much time of theirs; between,
# the last measured share of CPU time in wall time is carried on.
MEASURED_EVERY_NS: Final = 1_800_000
# Looking at a batch's values takes a tenth of a millisecond, and a few batches of each worker are like all others.
MOST_FORMS: Final = 8
# Lines are counted in one fetch once so many timed ones have told which functions are worth it.
_LINES_AFTER: Final = 2
_UNKNOWN: Final = -1

# Thread CPU, process CPU and run-queue delay in ns, then bytes read, bytes from storage, read calls; None where unknown.
_Reading = tuple[int, int, int | None, tuple[int, int, int] | None]


class _Io:
    """The process's own I/O counters, from a file that stays open; a fork asks for its own."""

    def __init__(self) -> None:
        self._handle, self._pid, self._missing = -1, 0, False

    def read(self, *, counts_itself: bool) -> tuple[int, int, int] | None:
        """Bytes read by read calls, bytes that came from storage, read calls; None where the kernel does not say.

        The kernel counts our own reading only afterwards: `counts_itself` adds it.
        """
        if self._missing:
            return None
        try:
            if self._pid != os.getpid():
                self._handle, self._pid = os.open("/proc/self/io", os.O_RDONLY | os.O_CLOEXEC), os.getpid()
            text = os.pread(self._handle, 512, 0)
            fields = text.split()
            own = len(text) if counts_itself else 0
            return int(fields[1]) + own, int(fields[9]), int(fields[5]) + counts_itself
        except (OSError, ValueError, IndexError):
            self._missing = True
            return None

    def close(self) -> None:
        """Give the file back; nothing is read any more. A fork has inherited it and may have closed it."""
        self._missing = True
        try:
            if self._pid == os.getpid():
                handle, self._handle = self._handle, -1
                os.close(handle)
        except (OSError, AttributeError):
            pass

    __del__ = close


class FetchTimer:
    """Times calls that make a batch, and the collating inside them. Used by the training process and by workers alike."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder, self._event = recorder, recorder.event
        self._io = _Io()
        self._calls = CallTimes("fetch", recorder.note, passed=PASSED)
        self._builtins = CallTimes(
            "fetch", recorder.note, builtins=True, share=BUILTINS_SHARE, early=BUILTINS_EARLY, describe=builtin_rows, passed=PASSED
        )
        self._lines = LineCounts(recorder.note, lambda: False, FRAMEWORK, of="fetch", is_call=True)
        self._reads = ReadLooks(recorder.note, recorder.fault, self._calls, passed=PASSED)
        recorder.undos.append(self._io.close)
        recorder.forgetters += [self._calls.forget, self._builtins.forget, self._lines.forget, self._reads.forget, self._forget]
        self._forget()

    def _forget(self) -> None:
        self._forms = 0

    def record_tiny(self, me: ThreadState, t0: int, t1: int) -> None:
        """Record a short fetch: its times only."""
        wall_ns = t1 - t0
        if wall_ns >= TINY_NS:
            me.fetch_ns = wall_ns
        self._event(FETCH, t0, t1, me.batch, _UNKNOWN, int(wall_ns * me.cpu_share))

    def timed(self, me: ThreadState, make: Callable[..., Any], fetcher: Any, index: Any) -> Any:
        """Call `make(fetcher, index)` and record it. Its exceptions pass."""
        reading: _Reading | None = None
        collate = None
        looks: CallTimes | LineCounts | None = None
        batch: Any = None
        slowed = False
        try:
            if not me.fetch_ns or me.unmeasured_ns >= MEASURED_EVERY_NS:
                me.unmeasured_ns = 0
                reading = self._read_before(me)
            index = timed_indices(me, fetcher, index)
            collate = fetcher.collate_fn
            # For this call only: nothing of ours stays on the fetcher.
            fetcher.collate_fn = self._timed_collate(me, collate, reading is not None)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)
        flags, t0 = 0, now()
        if self._recorder.level and collate is not None and me.fetch_ns >= TINY_NS:
            looks = self._look_into(me, t0)
            # The gap in which this thread makes its batch may be timed, see step_calls.py.
            slowed = looks is not None or others_profile()
        try:
            batch = make(fetcher, index)
            return batch
        except StopIteration:
            # The data set has ended: no batch was made.
            flags = _UNKNOWN
            raise
        except BaseException:  # passed on; the call is recorded as failed
            flags = FAILED
            raise
        finally:
            t1 = now()
            if collate is not None:
                fetcher.collate_fn = collate
            if looks is not None:
                self._end_look(looks, t1, max(me.collated, 0))
            if flags != _UNKNOWN:
                flags |= PROFILED * slowed
                try:
                    self._record(me, t0, t1, samples_of(fetcher, index, me.collated), flags, reading)
                    if looks is self._builtins and me.in_worker and batch is not None:
                        self._note_form(batch)
                    if type(index) is TimedIndices and not slowed:
                        record_slow(me, self._event, index, me.batch if me.making is None else me.making.batches)
                except Exception as error:  # the border: counted, and never raised into the training
                    self._recorder.fault(error)

    def _look_into(self, me: ThreadState, at_ns: int) -> CallTimes | LineCounts | None:
        """Begin to time the calls of this fetch, or to count its lines, if it is its turn; what does."""
        # One of many workers is enough for what slows a batch down most.
        is_first = not me.in_worker or not self._recorder.role.get("worker")
        try:
            if is_first and self._wants_lines(me):
                self._lines.begin(self._calls.entries(), self._calls.wall_s, self._calls.stretches)
                return self._lines
            timers = (self._calls, self._builtins, self._reads) if is_first else (self._calls,)
            return next((timer for timer in timers if timer.begin(at_ns)), None)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)
            return None

    def _wants_lines(self, me: ThreadState) -> bool:
        if self._lines.stretches or self._calls.stretches < _LINES_AFTER:
            return False
        # What is compiled must not notice; workers inherit what tells of it from a training that is, and seldom run any of it.
        is_compiled = not me.in_worker and has_compiled()
        return not is_compiled and sys.gettrace() is None and not others_profile()

    def _end_look(self, looks: CallTimes | LineCounts, at_ns: int, samples: int) -> None:
        try:
            if isinstance(looks, CallTimes):
                looks.end(at_ns, samples=samples)
            else:
                looks.end()
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def _note_form(self, batch: Any) -> None:
        """Write down what a batch is made of, for a few batches."""
        if self._forms < MOST_FORMS:
            self._forms += 1
            self._recorder.note({"kind": "batch", **batch_form(batch)})

    def _read_before(self, me: ThreadState) -> _Reading:
        # Counters of bytes last, and first afterwards: our own readings are no reading of data.
        thread_ns, process_ns, delay_ns = time.thread_time_ns(), time.process_time_ns(), me.delay_ns()
        return thread_ns, process_ns, delay_ns, self._io.read(counts_itself=True)

    def _read_after(self, me: ThreadState) -> _Reading:
        io = self._io.read(counts_itself=False)
        return time.thread_time_ns(), time.process_time_ns(), me.delay_ns(), io

    def _timed_collate(self, me: ThreadState, collate: Callable[[Any], Any], measured: bool) -> Callable[[Any], Any]:
        event, fault = self._event, self._recorder.fault
        me.collated = _UNKNOWN

        def collate_fn(data: Any) -> Any:
            cpu_ns, t0 = (time.thread_time_ns() if measured else 0), now()
            batch = collate(data)
            t1 = now()
            try:
                used_ns = time.thread_time_ns() - cpu_ns if measured else int((t1 - t0) * me.cpu_share)
                me.collated = list.__len__(data) if issubclass(type(data), list) else _UNKNOWN
                event(COLLATE, t0, t1, used_ns, bytes_in(batch))
            except Exception as error:  # the border: counted, and never raised into the training
                fault(error)
            return batch

        return collate_fn

    def _record(self, me: ThreadState, t0: int, t1: int, samples: int, flags: int, before: _Reading | None) -> None:
        event, wall_ns = self._event, t1 - t0
        me.fetch_ns += (wall_ns - me.fetch_ns) // 8 if me.fetch_ns else max(wall_ns, 1)
        count_made(me, wall_ns)
        iterator, batch = (_UNKNOWN, me.batch) if me.making is None else (me.making.number, me.making.batches)
        if me.in_worker:
            # What a step is to the training process, a batch is to a worker.
            self._recorder.step()
        if before is None:
            event(FETCH, t0, t1, batch, samples, int(wall_ns * me.cpu_share), flags)
            return
        thread_ns, process_ns, delay_ns, io = self._read_after(me)
        used_ns = thread_ns - before[0]
        me.cpu_share = min(used_ns / wall_ns, 1.0) if wall_ns else 1.0
        event(FETCH, t0, t1, batch, samples, used_ns, flags)
        waited_ns = _UNKNOWN if delay_ns is None or before[2] is None else delay_ns - before[2]
        event(FETCH_DELAY, t0, t1, max(process_ns - before[1] - used_ns, 0), waited_ns, iterator)
        if io is not None and before[3] is not None:
            read, storage, calls = (after - start for after, start in zip(io, before[3], strict=True))
            event(FETCH_IO, t0, t1, read, storage, calls)


def samples_of(fetcher: Any, index: Any, collated: int) -> int:
    """Samples in a batch: the indices that were asked for, of a stream what was collated; -1 where the data set makes whole batches."""
    if not getattr(fetcher, "auto_collation", False):
        return _UNKNOWN
    # A stream may end before. What a data set gives for many indices at once need not be a list of samples.
    if collated >= 0 and hasattr(fetcher, "dataset_iter"):
        return collated
    try:
        return len(index)
    except Exception:  # the user's own sampler made it, perhaps without a length or with one that fails
        return collated
