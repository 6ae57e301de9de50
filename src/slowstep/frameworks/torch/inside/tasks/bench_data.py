"""Measures the script's own training loader alone: as it is, by its parts, and with other numbers of workers.

What is found goes into `task` notes: `loader` (what it is, and what its workers have read so far), `begins` (what is done next, and for
how long), `drain` (one reading of the loader, see _drain.Drained), `parts` (see _parts.Parts).
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict
from typing import Any, Final

from slowstep.frameworks.torch.inside._loader.described import describe_iterator
from slowstep.frameworks.torch.inside.levers._input.rebuilt import MOST_ROOM, _start_method, loader_of
from slowstep.frameworks.torch.inside.levers._input.stream import ready_in
from slowstep.frameworks.torch.inside.tasks._again import is_stream
from slowstep.frameworks.torch.inside.tasks._drain import Drain
from slowstep.frameworks.torch.inside.tasks._parts import Parts, time_parts
from slowstep.levers._input.room import memory_free_bytes, own_bytes, shared_free_bytes
from slowstep.levers.workers import LEAST_ADDED
from slowstep.record.experiment.kernel_counts import bytes_read
from slowstep.record.experiment.lever import NotApplicable
from slowstep.record.experiment.loader_reading import Drained
from slowstep.record.experiment.tasks import TaskImplementation
from slowstep.record.experiment.training import Training
from slowstep.record.recorder import now
from slowstep.record.system.facts import cores_to_use
from slowstep.units import MIB

_USUAL_PREFETCH: Final = 2


def why_not(loader: Any, workers: int, iterator: Any, batch_bytes: int | None) -> str | None:
    """Why the loader is not tried with so many workers; None where it is. `iterator` is the training's own, None where there is none."""
    if not workers:
        return None
    if loader.num_workers == 0 and (method := _start_method()) != "fork":
        return f"workers would be started by {method!r}, which runs the script again where it does not expect it"
    shared = (batch_bytes or 0) * workers * (loader.prefetch_factor or _USUAL_PREFETCH)
    shared_free = shared_free_bytes()
    if shared_free is not None and shared > MOST_ROOM * shared_free:
        return f"its batches need {shared / MIB:.0f} MiB of shared memory, and {shared_free / MIB:.0f} MiB are free"
    pids = [worker.pid for worker in getattr(iterator, "_workers", ())]
    wanted, free = workers * max((own_bytes(pid) or 0 for pid in pids), default=0), memory_free_bytes()
    if free is not None and wanted > MOST_ROOM * free:
        return f"{workers} workers need {wanted / MIB:.0f} MiB of memory, and {free / MIB:.0f} MiB are free"
    return None


NAME: Final = "bench_data"
# Of the time for all: the loader as it is, its parts, and the rest for other numbers of workers.
_OWN_SHARE, _PARTS_SHARE = 0.2, 0.25
# What the starts of workers and slow batches take beside the time: beyond so many times the time nothing more is begun.
_SPILL: Final = 1.5
# A number of workers is begun only if there is time for so many of its first batches: that one, and enough others for a speed.
_FIRST_BATCHES: Final = 3
# After two doublings of the workers that are not worth it no more is tried.
MOST_DOUBLINGS_IN_VAIN: Final = 2
# The training's own workers fill their queue first, for at most so long.
_QUIET_NS: Final = 5_000_000_000
_LOOK_S: Final = 0.02


def run(training: Training, arguments: dict[str, Any]) -> None:
    """Measure, for about `seconds`. `parts` and `sweep`: whether the parts are timed, and other numbers of workers tried."""
    try:
        loader = loader_of(training)
    except NotApplicable as error:
        _note(training, "loader", reason=str(error))
        return
    cores = cores_to_use()
    together = len(training.feeders)
    _let_workers_rest(training.iterator)
    read = _read_so_far(training.iterator)
    _note(training, "loader", stream=is_stream(loader), cores=cores, reason=None, read_together=together, **read, **_describe(loader))
    _Bench(training, loader, cores, float(arguments["seconds"])).run(parts=bool(arguments["parts"]), sweep=bool(arguments["sweep"]))


class _Bench:
    def __init__(self, training: Training, loader: Any, cores: float | None, seconds: float) -> None:
        self._training, self._loader, self._cores, self._seconds = training, loader, cores, seconds
        self._own = int(loader.num_workers)
        self._batch_bytes: int | None = None
        self._until_ns = now() + int(_SPILL * seconds * 1e9)
        self._first_batch_ns = 0

    def run(self, *, parts: bool, sweep: bool) -> None:
        """The loader as it is comes first: that reading shows whether its files are cached by now."""
        own_s = self._seconds * _OWN_SHARE if parts or sweep else self._seconds
        rate = self._drain(self._own, own_s, turn=0)
        if parts:
            seconds = self._seconds * _PARTS_SHARE
            self._begin("its parts", seconds)
            _note(self._training, "parts", **asdict(self._time_parts(seconds)))
        if sweep:
            self._sweep(rate, self._seconds * (1 - _OWN_SHARE - parts * _PARTS_SHARE))

    def _time_parts(self, seconds: float) -> Parts:
        return time_parts(self._loader, seconds=seconds, one_thread=self._own > 0, until_ns=self._until_ns)

    def _sweep(self, own_rate: float, seconds: float) -> None:
        """All numbers of workers upwards, and back down: what drifts meanwhile is in all of them alike."""
        counts = worker_counts(self._own, self._cores)
        each_s = seconds / (2 * len(counts))
        tried, rates = list[int](), {self._own: own_rate}
        for workers in counts:
            tried.append(workers)
            rates[workers] = self._drain(workers, each_s, turn=1)
            if _adds_no_more([rates[count] for count in tried if count]):
                break
        for workers in reversed(tried):
            if self._no_time_left() is None:
                self._drain(workers, each_s, turn=2)

    def _drain(self, workers: int, seconds: float, *, turn: int) -> float:
        """One reading; returns its batches per second, 0 where there were none."""
        self._begin(f"{workers} workers" if workers != 1 else "1 worker", seconds)
        reason = self._why_not(workers, turn)
        if reason is None:
            folder = self._training.recorder.folder
            drained = Drain(self._loader, workers, folder, seconds=seconds, until_ns=self._until_ns).run()
        else:
            drained = Drained(workers, reason=reason)
        self._batch_bytes = self._batch_bytes or _batch_bytes(drained)
        self._first_batch_ns = max(self._first_batch_ns, *drained.starts_ns, 0)
        _note(self._training, "drain", turn=turn, **asdict(drained))
        return _batches_per_s(drained)

    def _why_not(self, workers: int, turn: int) -> str | None:
        if turn and (reason := self._no_time_left()) is not None:
            return reason
        return None if workers == self._own else why_not(self._loader, workers, self._training.iterator, self._batch_bytes)

    def _no_time_left(self) -> str | None:
        if now() + _FIRST_BATCHES * self._first_batch_ns < self._until_ns:
            return None
        slow = f"a first batch takes {self._first_batch_ns / 1e9:.1f} s" if self._first_batch_ns else "the time is over"
        return f"left out: {slow} (a larger --budget)"

    def _begin(self, doing: str, seconds: float) -> None:
        _note(self._training, "begins", doing=doing, seconds=seconds, at_ns=now())


def worker_counts(own: int, cores: float | None) -> list[int]:
    """0, 1, 2, 4 ... up to the first beyond the allowed cores, and the loader's own number."""
    beyond = max(math.floor(cores or 1) + 1, 2)
    counts = {0, own, *(2**power for power in range(math.ceil(math.log2(beyond)) + 1))}
    return sorted(counts)


def _adds_no_more(rates: list[float]) -> bool:
    """Whether the last two of ever more workers each added less than LEAST_ADDED to the best before."""
    in_vain = [rate < (1 + LEAST_ADDED) * max(rates[:number]) for number, rate in enumerate(rates) if number]
    return len(in_vain) >= MOST_DOUBLINGS_IN_VAIN and all(in_vain[-MOST_DOUBLINGS_IN_VAIN:])


def _batches_per_s(drained: Drained) -> float:
    edges = drained.edges
    spent_ns = sum(row[0] for row in drained.rows) + sum(each.start_ns + each.fill_ns + max(each.end_ns, 0) for each in edges)
    batches = sum(row[1] for row in drained.rows) + sum(each.filled for each in edges)
    return batches * 1e9 / spent_ns if spent_ns else 0.0


def _batch_bytes(drained: Drained) -> int | None:
    counted = [(row[1], row[3]) for row in drained.rows] + [(each.filled, each.size_bytes) for each in drained.edges]
    batches, size = sum(count for count, _ in counted), sum(size for _, size in counted)
    return size // batches if batches and size > 0 else None


def _describe(loader: Any) -> dict[str, Any]:
    """The loader in the words of the recording, which knows iterators: its iterator may have ended."""
    names = ("collate_fn", "dataset", "num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "drop_last")
    return describe_iterator(
        {f"_{name}": getattr(loader, name, None) for name in names} | {"_dataset_kind": int(is_stream(loader))}, loader
    )


def _let_workers_rest(iterator: Any) -> None:
    """Wait until the training's own workers have filled their queue: then they do nothing more."""
    until_ns = now() + _QUIET_NS
    while iterator is not None and now() < until_ns:
        ready = ready_in(iterator)
        if ready is None or ready >= len(iterator.__dict__.get("_task_info", ())):
            return
        time.sleep(_LOOK_S)


def _read_so_far(iterator: Any) -> dict[str, int | None]:
    """What the training's own workers have read before the measuring. Null without workers: a process reads more than its data."""
    pids = [worker.pid for worker in getattr(iterator, "__dict__", {}).get("_workers", ())]
    called, storage = (bytes_read(pids) if pids else None) or (None, None)
    return {"read_before_bytes": called, "storage_before_bytes": storage}


def _note(training: Training, part: str, **fields: Any) -> None:
    training.recorder.note({"kind": "task", "task": NAME, "part": part, **fields})


TASK = TaskImplementation(name=NAME, run=run)
