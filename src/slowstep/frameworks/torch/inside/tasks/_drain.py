"""Reads a loader as fast as it gives, for some seconds, and accounts for what its producers did meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from slowstep.frameworks.torch.inside.levers._input.stream import ready_in
from slowstep.frameworks.torch.inside.tasks._again import LoaderAgain
from slowstep.frameworks.torch.inside.tasks._cells import FIELDS, Cells, Meter, Probe
from slowstep.frameworks.torch.inside.tasks._plain import plain
from slowstep.record.experiment.account import LOOK_NS, Account
from slowstep.record.experiment.loader_reading import LEAST_BATCHES, OVERTIME, ROW_NS, UNKNOWN, Drained, Edges, said, sum_known
from slowstep.record.recorder import now
from slowstep.record.timing.batches import bytes_in, samples_in

# So many batches of each worker, while there is any time left for anything: from fewer no speed is told.
FEW_BATCHES: Final = 2
# No worker keeps the training thread waiting longer, unless there is more time than that.
_TIMEOUT_S: Final = 30.0
# Of the time that a loader is read, looking into its batches takes no more than this: its workers go on meanwhile. A batch of nested lists
# takes milliseconds, more than many a loader needs for making it.
_MOST_SHARE: Final = 0.02


class Drain:
    """One reading of a loader, built again with so many workers, in epochs as long as the script's.

    Slow batches may take it beyond its time, and in the end until `until_ns`.
    """

    def __init__(self, loader: Any, workers: int, folder: str, *, seconds: float, until_ns: int = 0) -> None:
        self._loader, self._folder, self._limit_ns = loader, folder, int(seconds * 1e9)
        self._drained = Drained(workers)
        # What collates as torch does gives its samples the first dimension; in anything else they cannot be counted.
        self._is_default = str(getattr(loader.collate_fn, "__module__", "")).startswith("torch.utils.data")
        self._iterator: Any = None
        self._row: list[int] = []
        self._sizes = SampleSizes()
        self._began_ns, self._until_ns = now(), until_ns
        self._last_ns = self._counted_ns = self._batches = self._look_ns = 0

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
        workers, self._began_ns = self._drained.workers, now()
        timeout_s = max(_TIMEOUT_S, 4 * self._limit_ns / 1e9, (self._until_ns - self._began_ns) / 1e9)
        again = LoaderAgain(self._loader, workers, init=Probe(cells.path, self._loader.worker_init_fn), timeout_s=timeout_s)
        self._drained.epoch_batches = length = again.epoch_batches
        # The first batches find every worker at its beginning, and then a queue that fills.
        skip = workers * (again.loader.prefetch_factor or 0)
        # Of epochs that are too short for that every batch is counted from the second on.
        skip = 0 if length is not None and length - 1 <= skip else skip
        while not self._is_over():
            before = self._batches
            self._read_epoch(again, cells, skip)
            skip = skip if self._batches > before else 0

    def _read_epoch(self, again: LoaderAgain, cells: Cells, skip: int) -> None:
        """From the start of an iterator until the time is over, or the data set."""
        drained, edges = self._drained, Edges()
        is_change = self._iterator is not None or not again.is_persistent
        self._last_ns = now()
        count = self._begin(again, cells)
        account, counted = None, 0
        try:
            edges.add(*self._receive(again))
            drained.starts_ns.append(edges.start_ns)
            while edges.filled <= skip and not (self._is_late() and edges.filled >= drained.workers):
                edges.add(*self._receive(again))
            # Of short epochs one is looked at now and then: a look takes as long as they do.
            if self._last_ns >= self._look_ns:
                self._look_ns = self._last_ns + LOOK_NS
                account = Account(_workers_of(self._iterator), count)
                self._last_ns = now()
            while not self._is_over():
                self._count(again, is_looked_at=account is not None)
                counted += 1
                # At the end of an epoch its workers are gone, and with them what the kernel says of them.
                is_last = edges.filled + counted == again.epoch_batches
                if account is not None and (is_last or account.is_due(self._last_ns)):
                    self._last_ns += account.look()
        except StopIteration:
            if not edges.filled:
                raise ValueError("the data set gave no batch") from None
            edges.end_ns, edges.batches = now() - self._last_ns, edges.filled + counted
        finally:
            if account is not None:
                if edges.batches == UNKNOWN or edges.batches != again.epoch_batches:
                    account.look()
                drained.slices += account.slices
            if not again.is_persistent or edges.batches == UNKNOWN:
                self._end_iterator()
        self._end_epoch(edges, counted, is_change=is_change)

    def _begin(self, again: LoaderAgain, cells: Cells) -> Callable[[], Mapping[str, int]]:
        """Start an iterator, or the next epoch of persistent workers; returns what its producers count of themselves."""
        if self._iterator is not None:
            again.restart(self._iterator)
            return cells.read
        cells.clear()
        self._iterator = again.start()
        return self._metered(self._iterator) or cells.read

    def _end_epoch(self, edges: Edges, counted: int, *, is_change: bool) -> None:
        drained = self._drained
        drained.skipped += edges.filled
        if len(drained.starts_ns) > 1:
            # What begins a reading does not use up its time.
            self._counted_ns += edges.start_ns + edges.fill_ns + max(edges.end_ns, 0)
            self._batches += 0 if counted else edges.filled
        if is_change:
            drained.edges.append(edges)
        self._end_row()

    def _metered(self, iterator: Any) -> Callable[[], Mapping[str, int]] | None:
        """Measure the batches that the training thread makes itself; None where workers do."""
        fetcher = getattr(iterator, "_dataset_fetcher", None)
        if fetcher is None:
            return None
        sums = [0] * len(FIELDS)
        meter, original = Meter(lambda counted: sums.__setitem__(slice(None), counted)), plain(type(fetcher).fetch)
        fetcher.fetch = lambda index: meter.fetch(original, fetcher, index)
        return lambda: dict(zip(FIELDS, sums, strict=True))

    def _receive(self, again: LoaderAgain) -> tuple[int, int, int, int]:
        """The next batch: ns since the one before, samples, the recorder's count, bytes. Looking into it is not in the time."""
        batch = plain(type(self._iterator).__next__)(self._iterator)
        at_ns = now()
        samples, seen, size = self._sizes.of(batch, self._samples(again))
        ns, self._last_ns = at_ns - self._last_ns, now()
        return ns, samples, seen, size

    def _count(self, again: LoaderAgain, *, is_looked_at: bool) -> None:
        """The next batch into the rows."""
        drained, ready, asked_ns = self._drained, ready_in(self._iterator), now()
        before_ns = self._last_ns
        ns, samples, seen, size = self._receive(again)
        drained.seen = sum_known(drained.seen, seen)
        self._row = [sum_known(*pair) for pair in zip(self._row or [0] * 4, (ns, 1, samples, size), strict=True)]
        self._batches += 1
        self._counted_ns += ns
        if ready and is_looked_at:
            drained.ready += 1
            drained.ready_ns += before_ns + ns - asked_ns
        if self._row[0] >= ROW_NS:
            self._end_row()

    def _samples(self, again: LoaderAgain) -> int | None:
        """The samples of the batch that was received last; None where they are to be counted in it."""
        if again.lengths is not None:
            length = again.lengths.popleft()
            return None if length == UNKNOWN else length
        size = self._loader.batch_size
        return None if self._is_default or not isinstance(size, int) else size

    def _is_late(self) -> bool:
        """Whether more time has gone by than there was, and nothing is counted yet."""
        return not self._batches and now() - self._began_ns > self._limit_ns

    def _is_over(self) -> bool:
        if now() - self._began_ns > OVERTIME * self._limit_ns:
            return self._batches >= FEW_BATCHES * max(self._drained.workers, 1) or now() > self._until_ns
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


class SampleSizes:
    """Looks into the first batch, and into others as far as that takes next to no time; those between are as the last one was."""

    def __init__(self) -> None:
        self._began_ns, self._spent_ns = now(), 0
        self._samples = self._seen = self._bytes = UNKNOWN
        self._has_looked = False

    def of(self, batch: Any, samples: int | None) -> tuple[int, int, int]:
        """Samples, the recorder's count of them, and bytes; UNKNOWN where they are not known. `samples` None: they are the recorder's."""
        began_ns = now()
        if self._has_looked and self._spent_ns > _MOST_SHARE * (began_ns - self._began_ns):
            return self._like_the_last(samples)
        self._seen, self._bytes = samples_in(batch), bytes_in(batch)
        self._samples = self._seen if samples is None else samples
        self._has_looked = True
        self._spent_ns += now() - began_ns
        return self._samples, self._seen, self._bytes

    def _like_the_last(self, samples: int | None) -> tuple[int, int, int]:
        if samples is None or self._samples <= 0:
            return self._samples if samples is None else samples, self._seen, self._bytes
        seen, size = (known if known == UNKNOWN else known * samples // self._samples for known in (self._seen, self._bytes))
        return samples, seen, size


def _workers_of(iterator: Any) -> list[int]:
    return [worker.pid for worker in iterator.__dict__.get("_workers", ())]
