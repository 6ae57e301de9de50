"""Input of a framework that keeps sums and tells of no single batch: its counters become records of what was added in each window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slowstep.record.recorder import now
from slowstep.record.writing.format import AGGREGATE, FETCH, UPDATE, WAIT

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# Far from the numbers that other hooks give to iterators.
_NUMBER: Final = 1 << 33


class CountedInput:
    """One input, read by the framework itself; `num_workers` make it beside the training, None where that is not known. Sums begin with 0
    when this is made.
    """

    def __init__(self, recorder: Recorder, *, dataset: str, num_workers: int | None = 0) -> None:
        self._recorder = recorder
        # The thread that updates: what is counted keeps its steps waiting.
        self._thread = recorder.local.me.thread
        self._read_ns, self._sums = now(), (0, 0, 0, 0)
        recorder.ensure_open()
        note = {"kind": "iterator", "id": _NUMBER, "loader": _NUMBER, "num_workers": num_workers, "workers": []}
        recorder.note({**note, "dataset": dataset, "batch_size": None})

    def read(self, batches: int, waited_ns: int, busy_ns: int | None, samples: int | None = None) -> None:
        """Write down what has come since the last time: batches, the time in which they were waited for, that of computing, and the samples
        in them; None where nobody counts it.
        """
        began_ns, before = self._read_ns, self._sums
        self._read_ns, self._sums = now(), (batches, waited_ns, busy_ns or 0, samples or 0)
        count, waited, busy, held = (new - old for new, old in zip(self._sums, before, strict=True))
        self._write(began_ns, WAIT, count, waited)
        if samples is not None:
            self._write(began_ns, FETCH, count, held)
        if busy_ns is not None:
            self._write(began_ns, UPDATE, count, busy)

    def _write(self, began_ns: int, kind: int, count: int, total: int) -> None:
        self._recorder.event(AGGREGATE, began_ns, self._read_ns, count, total, _NUMBER, 0, kind, self._thread)
