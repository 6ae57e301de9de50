"""What a loader's workers spend, counted by themselves in a small file that the training process reads."""

from __future__ import annotations

import mmap
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from slowstep.frameworks.torch.inside.tasks._plain import plain
from slowstep.record.active import recorders
from slowstep.record.recorder import now
from slowstep.record.writing.storage import map_shared
from slowstep.record.writing.threads import Schedstat

# Cumulative, of one worker: batches made; wall, CPU and run-queue ns of making them; CPU ns of the process's other threads meanwhile; wall
# and CPU ns of collating; CPU ns of the whole process.
FIELDS: Final = ("batches", "wall_ns", "cpu_ns", "delay_ns", "others_ns", "collate_ns", "collate_cpu_ns", "process_ns")
_ROW: Final = struct.Struct(f"<{len(FIELDS)}q")
_FETCHERS: Final = ("_MapDatasetFetcher", "_IterableDatasetFetcher")


def queue_clock() -> Callable[[], int]:
    """Tells how long this thread has waited for a core so far, in ns; always 0 where the kernel does not say."""
    try:
        clock = Schedstat(threading.get_native_id())
        clock.delay_ns()
        return clock.delay_ns
    except (OSError, ValueError, IndexError):
        return int


class Meter:
    """Adds up what the making of batches takes on one thread, and writes it down after each of them."""

    def __init__(self, write: Callable[[Sequence[int]], None]) -> None:
        self._write, self._sums, self._delay_ns = write, [0] * len(FIELDS), queue_clock()

    def begin(self) -> None:
        """Write down what the process has used before its first batch: imports, its start."""
        self._sums[7] = time.process_time_ns()
        self._write(self._sums)

    def fetch(self, original: Callable[[Any, Any], Any], fetcher: Any, index: Any) -> Any:
        """Make a batch by `original(fetcher, index)`, measured. Its exceptions pass."""
        if type(fetcher.collate_fn) is not _Collate:
            fetcher.collate_fn = _Collate(self._sums, fetcher.collate_fn)
        made = 0
        delay_ns, process_ns, cpu_ns, began_ns = self._delay_ns(), time.process_time_ns(), time.thread_time_ns(), now()
        try:
            batch = original(fetcher, index)
            made = 1
            return batch
        finally:
            sums, used_ns = self._sums, time.thread_time_ns() - cpu_ns
            sums[1] += now() - began_ns
            whole_ns = time.process_time_ns()
            sums[0] += made
            sums[2] += used_ns
            sums[3] += self._delay_ns() - delay_ns
            sums[4] += max(whole_ns - process_ns - used_ns, 0)
            sums[7] = whole_ns
            self._write(sums)


class _Collate:
    """A collate function, timed."""

    def __init__(self, sums: list[int], collate: Callable[[Any], Any]) -> None:
        self._sums, self._collate = sums, collate

    def __call__(self, data: Any) -> Any:
        cpu_ns, began_ns = time.thread_time_ns(), now()
        batch = self._collate(data)
        self._sums[5] += now() - began_ns
        self._sums[6] += time.thread_time_ns() - cpu_ns
        return batch


class Cells:
    """The training process's side: a file with a row per worker. It is gone after `close`."""

    def __init__(self, folder: str, workers: int) -> None:
        self._workers = workers
        self.path = os.path.join(folder, f"cells-{os.getpid()}-{now():x}")
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            # Written, not truncated to size: a page of a full disk would kill whoever touches it.
            size = max(_ROW.size * workers, mmap.PAGESIZE)
            os.write(handle, bytes(size))
            self._page = map_shared(handle, size)
        finally:
            os.close(handle)

    def read(self) -> dict[str, int]:
        """Sums over all workers."""
        rows = [_ROW.unpack_from(self._page, worker * _ROW.size) for worker in range(self._workers)]
        return dict(zip(FIELDS, (sum(column) for column in zip(*rows, strict=True)), strict=True))

    def clear(self) -> None:
        """Forget what workers that have ended counted: new ones count from nothing."""
        self._page[: _ROW.size * self._workers] = bytes(_ROW.size * self._workers)

    def close(self) -> None:
        """Remove the file. Workers that still run have it mapped, and nothing else."""
        os.unlink(self.path)


class Probe:
    """What a worker does first, before the loader's own `worker_init_fn`: it stops recording, and counts instead."""

    def __init__(self, path: str, init: Callable[[int], None] | None) -> None:
        self._path, self._init = path, init

    def __call__(self, worker: int) -> None:
        for recorder in recorders:
            recorder.stop("measured otherwise")
            recorder.leave()
        handle = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            page = map_shared(handle, os.fstat(handle).st_size)
        finally:
            os.close(handle)
        meter = Meter(lambda sums: _ROW.pack_into(page, worker * _ROW.size, *sums))
        meter.begin()
        module = sys.modules["torch.utils.data._utils.fetch"]
        for name in _FETCHERS:
            fetcher = getattr(module, name)
            # The worker's own copy of the class: the process ends with the loader.
            fetcher.fetch = _measured(meter, plain(fetcher.fetch))
        if self._init is not None:
            self._init(worker)


def _measured(meter: Meter, original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def fetch(self: Any, index: Any) -> Any:
        return meter.fetch(original, self, index)

    return fetch
