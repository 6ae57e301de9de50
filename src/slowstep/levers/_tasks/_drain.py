"""Reads a loader as fast as it gives, for some seconds, and accounts for what its producers did meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from slowstep.levers._stream import ready_in
from slowstep.levers._tasks._account import Account, Slice
from slowstep.levers._tasks._again import Again
from slowstep.levers._tasks._cells import FIELDS, Cells, Meter, Probe
from slowstep.levers._tasks._plain import plain
from slowstep.record.batches import bytes_in, samples_in
from slowstep.record.recorder import now

# Batches are added up to rows of so many ns at least: a fast loader gives fifty thousand in a second.
_ROW_NS: Final = 2_000_000
# So many batches are counted though the time is over, in at most so many times the time.
LEAST_BATCHES: Final = 12
OVERTIME: Final = 3.0
# No worker keeps the training thread waiting longer.
_TIMEOUT_S: Final = 30.0
_UNKNOWN: Final = -1


@dataclass(slots=True)
class Drained:
    """What was read. `rows` are [ns, batches, samples, bytes] without a gap between them; -1 is unknown.

    `seen` are the samples as the recorder counts them in batches. `ready_ns` went by in receiving the `ready` batches that lay ready.
    `starts_ns`: what each start of an iterator took until its first batch. `slices`: see _account.Account. `reason`: why it ended early.
    """

    workers: int
    rows: list[list[int]] = field(default_factory=list)
    skipped: int = 0
    seen: int = 0
    ready: int = 0
    ready_ns: int = 0
    starts_ns: list[int] = field(default_factory=list)
    slices: list[Slice] = field(default_factory=list)
    reason: str | None = None


class Drain:
    """One reading of a loader, built again with so many workers."""

    def __init__(self, loader: Any, workers: int, folder: str, *, seconds: float) -> None:
        self._loader, self._folder, self._limit_ns = loader, folder, int(seconds * 1e9)
        self._drained = Drained(workers)
        # What collates as torch does gives its samples the first dimension; in anything else they cannot be counted.
        self._is_default = str(getattr(loader.collate_fn, "__module__", "")).startswith("torch.utils.data")
        self._iterator: Any = None
        self._row: list[int] = []
        self._last_ns = self._counted_ns = self._batches = 0

    def run(self) -> Drained:
        """Read. Whatever the loader raises ends it, as the `reason`; no worker and no file is left afterwards."""
        drained = self._drained
        try:
            cells = Cells(self._folder, max(drained.workers, 1))
            try:
                self._read(cells)
            finally:
                self._end_iterator()
                cells.close()
        except Exception as error:  # the script's own loader raises whatever it likes: said as the reason
            drained.reason = said(error)
        self._end_row()
        return drained

    def _read(self, cells: Cells) -> None:
        workers, began_ns = self._drained.workers, now()
        timeout_s = max(_TIMEOUT_S, 4 * self._limit_ns / 1e9)
        again = Again(self._loader, workers, init=Probe(cells.path, self._loader.worker_init_fn), timeout_s=timeout_s)
        # The first batches find every worker at its beginning, and then a queue that fills.
        skip = workers * (again.loader.prefetch_factor or 0)
        while not self._is_over(began_ns):
            before = self._batches
            self._read_epoch(again, cells, skip, began_ns)
            if self._batches == before and skip == 0:
                raise ValueError("the data set ends after its first batch: there is nothing to measure between its begin and its end")
            # Only a stream ends. What is too short for skipping is counted from its second batch on.
            skip = skip if self._batches > before else 0

    def _read_epoch(self, again: Again, cells: Cells, skip: int, began_ns: int) -> None:
        """From the start of an iterator until the time is over, or the data set."""
        started_ns = now()
        iterator = self._iterator = again.start()
        count = self._metered(iterator) or cells.read
        account = None
        try:
            self._take(again, is_counted=False)
            self._drained.starts_ns.append(now() - started_ns)
            for skipped in range(skip):
                if now() - began_ns > self._limit_ns and skipped >= self._drained.workers:
                    break
                self._take(again, is_counted=False)
            account = Account(iterator, count)
            self._last_ns = now()
            while not self._is_over(began_ns):
                self._take(again, is_counted=True)
                if account.is_due(self._last_ns):
                    self._last_ns += account.look()
        except StopIteration:
            pass
        finally:
            if account is not None:
                account.look()
                self._drained.slices += account.slices
            self._end_iterator()

    def _metered(self, iterator: Any) -> Callable[[], Mapping[str, int]] | None:
        """Measure the batches that the training thread makes itself; None where workers do."""
        fetcher = getattr(iterator, "_dataset_fetcher", None)
        if fetcher is None:
            return None
        sums = [0] * len(FIELDS)
        meter, original = Meter(lambda counted: sums.__setitem__(slice(None), counted)), plain(type(fetcher).fetch)
        fetcher.fetch = lambda index: meter.fetch(original, fetcher, index)
        return lambda: dict(zip(FIELDS, sums, strict=True))

    def _take(self, again: Again, *, is_counted: bool) -> None:
        iterator, drained = self._iterator, self._drained
        ready = ready_in(iterator)
        asked_ns = now()
        batch = plain(type(iterator).__next__)(iterator)
        at_ns = now()
        seen, size = samples_in(batch), bytes_in(batch)
        samples = self._samples(again, seen)
        if not is_counted:
            drained.skipped += 1
            return
        self._row = self._row or [0, 0, 0, 0]
        for column, value in enumerate((at_ns - self._last_ns, 1, samples, size)):
            self._row[column] = _UNKNOWN if value == _UNKNOWN or self._row[column] == _UNKNOWN else self._row[column] + value
        self._batches += 1
        self._counted_ns += at_ns - self._last_ns
        self._last_ns = at_ns
        drained.seen = _UNKNOWN if seen == _UNKNOWN else drained.seen + seen
        if ready:
            drained.ready += 1
            drained.ready_ns += at_ns - asked_ns
        if self._row[0] >= _ROW_NS:
            self._end_row()

    def _samples(self, again: Again, seen: int) -> int:
        if again.lengths is not None:
            length = again.lengths.popleft()
            return seen if length == _UNKNOWN else length
        size = self._loader.batch_size
        return seen if self._is_default or not isinstance(size, int) else size

    def _is_over(self, began_ns: int) -> bool:
        if now() - began_ns > OVERTIME * self._limit_ns:
            return True
        return self._counted_ns >= self._limit_ns and self._batches >= LEAST_BATCHES

    def _end_row(self) -> None:
        if self._row:
            self._drained.rows.append(self._row)
            self._row = []

    def _end_iterator(self) -> None:
        iterator, self._iterator = self._iterator, None
        end = getattr(iterator, "_shutdown_workers", None)
        if end is not None:
            end()


def said(error: BaseException) -> str:
    """An exception in one line; of one that a worker raised, what it raised."""
    lines = str(error).strip().splitlines()
    last = lines[-1] if lines and lines[0].startswith("Caught ") else f"{type(error).__name__}: {lines[0] if lines else ''}"
    return last[:200]
