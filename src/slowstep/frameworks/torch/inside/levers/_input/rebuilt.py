"""The training's loader built a second time from its own arguments, one of them changed: its workers rest while their arm is off."""

from __future__ import annotations

import multiprocessing
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

from slowstep.frameworks.torch.inside.levers._input.stream import Stream, Usual, torch_class
from slowstep.frameworks.torch.inside.levers._input.supplying import NO_LOADER, OWN_ITERATORS, InputChange, said
from slowstep.levers._input.room import MIB, memory_free_bytes, own_bytes, shared_free_bytes
from slowstep.record.experiment.lever import LeverSpec, NotApplicable, NotHere
from slowstep.record.experiment.training import Training
from slowstep.record.recorder import now
from slowstep.units import format_duration

# So long a batch is waited for before the arm is given up, or so many times as long as the longest wait for a batch of the loader's own.
LONGEST_S: Final = 20.0
LONGEST_TIMES: Final = 10
# Of free memory and of free shared memory a second loader takes no more than this share.
MOST_ROOM: Final = 0.5


Arguments = Callable[[Any, LeverSpec], dict[str, Any]]


def own_loader(training: Training) -> Any:
    """The training's loader. Raises NotApplicable where there is none."""
    loader = training.loader
    if loader is None:
        raise NotApplicable(NO_LOADER)
    return loader


def loader_of(training: Training) -> Any:
    """The training's loader, if it can be built again. Raises NotApplicable with the reason."""
    loader = own_loader(training)
    if type(loader)._get_iterator is not torch_class("DataLoader")._get_iterator:
        raise NotHere(OWN_ITERATORS.format(type(loader).__name__))
    module = type(loader.dataset).__mro__
    if any(kind.__name__ in ("IterDataPipe", "MapDataPipe") for kind in module):
        raise NotHere("its data set is a data pipe, which reading changes")
    for sampler in (loader.batch_sampler, loader.sampler):
        if hasattr(sampler, "__next__"):
            raise NotHere(f"its sampler, a {type(sampler).__name__}, is an iterator and can be read once only")
    return loader


def again(loader: Any, **changed: Any) -> Any:
    """A loader like another, some arguments changed. No constructor is called: a subclass may want other arguments than torch's."""
    made = object.__new__(type(loader))
    made.__dict__.update(loader.__dict__)
    made.__dict__["_iterator"] = None
    _set(made, changed)
    return made


def at_building(arguments: Arguments) -> Callable[[Any, LeverSpec], Mapping[str, Any]]:
    """What a lever does to a loader that was just built, of what it would build a second one from (`Lever.build`)."""

    def build(loader: Any, spec: LeverSpec) -> Mapping[str, Any]:
        before = dict(loader.__dict__)
        try:
            changed = arguments(loader, spec)
            _set(loader, changed)
        except BaseException:
            loader.__dict__.clear()
            loader.__dict__.update(before)
            raise
        return {**_shape(loader), "own_workers": before.get("num_workers"), **_as_written(changed)}

    return build


def _shape(loader: Any) -> dict[str, Any]:
    return {"workers": loader.num_workers, "prefetch_factor": loader.prefetch_factor, "persistent": loader.persistent_workers}


def _as_written(changed: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as a script may write them; nothing where one of them is no plain value."""
    return {"arguments": dict(changed)} if all(type(value) in (bool, int, float, str) for value in changed.values()) else {}


def _set(made: Any, changed: Mapping[str, Any]) -> None:
    """Change arguments of a loader, past its own care that nobody does, and those that go with them."""
    made.__dict__.update(changed)
    if made.num_workers == 0:
        made.__dict__.update(prefetch_factor=None, persistent_workers=False, timeout=0, _DataLoader__multiprocessing_context=None)
    elif made.prefetch_factor is None:
        made.__dict__["prefetch_factor"] = 2
    hidden = [name for name, value in changed.items() if getattr(made, name) is not value]
    if hidden:
        raise NotApplicable(f"{type(made).__name__} keeps its {hidden[0]} in a way of its own")


class Rebuilt(InputChange):
    """The second loader. `growth`: how many times as large its batches are."""

    keeps_own = True

    def __init__(self, training: Training, *, growth: float = 1.0, **changed: Any) -> None:
        loader = loader_of(training)
        self.loader = again(loader, **changed)
        self._check_start(loader)
        self._own_workers, self._growth = int(loader.num_workers), growth
        self._written = _as_written(changed)
        self.usual = Usual()
        self.epochs = 0
        self._is_tried = False
        super().__init__(training)

    def _check_start(self, loader: Any) -> None:
        if self.loader.num_workers == 0:
            if loader.num_workers == 0 and loader._dataset_kind != 0:
                raise NotHere("its data set is a stream in the training's own process, which can be read once only")
        elif loader.num_workers == 0 and (method := _start_method()) != "fork":
            raise NotHere(f"workers would be started by {method!r}, which runs the script again where it does not expect it")

    def ready(self) -> bool:
        """Whether its first batch has come, and its workers rest. Raises NotApplicable where they cannot be started or fail."""
        if self.feed.seen.batch_bytes is None:
            return super().ready()
        if self.loader.num_workers == 0:
            # Its batches are made while the training waits: it must be known before the first one what that takes.
            if not super().ready():
                return False
            self._check_time()
        if self.stream is None:
            self._check_room(self.feed.seen.batch_bytes)
            self._start()
        return self._has_been_tried() and self.feed.is_settled() and super().ready()

    def _has_been_tried(self) -> bool:
        stream = self.stream
        if not self._is_tried and stream is not None:
            if stream.ready == 0:
                return False
            try:
                self.try_batch(stream.take())
            except NotApplicable:
                raise
            except Exception as error:  # the script's data set and collate, and torch's start of workers: any fault is the reason
                raise NotApplicable(f"its first batch fails: {said(error)}") from None
        self._is_tried = True
        return True

    def try_batch(self, batch: Any) -> None:
        """Look at its first batch. Raises NotApplicable."""

    def _check_time(self) -> None:
        """Raises NotApplicable where batches take so long to make that the lever could not be judged within the experiment's budget."""
        usual, longest = self.feed.seen.request_ns, self.feed.training.longest_step_ns
        if self._is_tried or self._own_workers or usual is None or longest is None:
            return
        needed_ns = usual * self._growth
        if needed_ns > longest:
            raise NotApplicable(
                f"its first batch alone would take about {format_duration(needed_ns)} to make, by what the loader's own take, and the "
                f"budget has room for steps of {format_duration(longest)}: give more --budget"
            )

    def _check_room(self, batch_bytes: int) -> None:
        workers = self.loader.num_workers
        shared, shared_free = int(batch_bytes * self._growth) * workers * (self.loader.prefetch_factor or 0), shared_free_bytes()
        if shared_free is not None and shared > MOST_ROOM * shared_free:
            raise NotApplicable(f"its batches need {shared / MIB:.0f} MiB of shared memory, and {shared_free / MIB:.0f} MiB are free")
        own = self.feed.training.iterator
        pids = [worker.pid for worker in getattr(own, "_workers", ())]
        wanted, free = workers * max((own_bytes(pid) or 0 for pid in pids), default=0), memory_free_bytes()
        if free is not None and wanted > MOST_ROOM * free:
            raise NotApplicable(f"{workers} workers need {wanted / MIB:.0f} MiB of memory, and {free / MIB:.0f} MiB are free")

    def _start(self) -> None:
        try:
            with warnings.catch_warnings():
                # That there are more workers than cores, or threads where it forks: nobody asked.
                warnings.simplefilter("ignore")
                iterator = self.loader._get_iterator()
        except Exception as error:  # the script's data set and collate, and torch's start of workers: any fault is the reason
            raise NotHere(f"its workers cannot be started a second time: {said(error)}") from None
        self.stream = Stream(iterator, self.feed.receive)
        if not self.stream.has_workers:
            return
        # Torch raises the death of a worker that it knows of in the middle of the script.
        if iterator._worker_pids_set:
            torch_class("_utils").signal_handling._remove_worker_pids(id(iterator))
            iterator._worker_pids_set = False
        iterator._timeout = iterator._timeout or max(LONGEST_S, LONGEST_TIMES * self.feed.seen.slowest_ns / 1e9)

    def begin(self, left: int | None) -> int:
        """Begin, with what lies ready."""
        if self.stream is None or self.stream.is_over:
            self._start()
        self.usual.interrupt()
        self._limit(left)
        # As long as nothing is known of how it does: twice all of its workers.
        return 2 * self._running().workers + 2 if self.usual.level is None else 1

    def level(self, left: int | None) -> bool:
        """A queue that filled up while nobody asked is none of its gain, and one that own workers kept from filling none of its loss."""
        stream = self._running()
        if self.usual.level is None or stream.is_over:
            return False
        stream.bring_to(*self.usual.start(), left=self.bound(left))
        self.usual.interrupt()
        return True

    def bound(self, left: int | None) -> int | None:
        """How many batches it is to give until its epoch ends, with so many left in the script's; None: as many as its data has."""
        return left

    def _limit(self, left: int | None) -> None:
        if (bound := self.bound(left)) is not None:
            self._running().allow(bound)

    def give(self, left: int | None) -> Any:
        """Its next batch; where it ends before the epoch does, it begins again."""
        stream = self._running()
        began_ns, ready, is_settled = now(), stream.ready, self.feed.is_settled()
        try:
            batch = stream.take()
        except StopIteration:
            if left is None:
                raise
            self.renew(left)
            batch = self._running().take()
        if is_settled:
            self.usual.add(ready, began_ns, now() - began_ns)
        return batch

    def end(self, own: Any) -> None:
        """End it with the epoch."""
        self._running().end()

    def begin_epoch(self, left: int | None) -> None:
        """The script's next one, and its own."""
        self.renew(left)

    def renew(self, left: int | None) -> None:
        """Begin an epoch as its loader does: with new workers, or with the same where they are persistent."""
        stream = self._running()
        if stream.has_workers and self.loader.persistent_workers:
            stream.iterator._reset(self.loader)
        else:
            stream.close()
            self._start()
        self.epochs += 1
        self._limit(left)

    def remove(self) -> None:
        """Leave nothing behind, and end its workers."""
        super().remove()
        if self.stream is not None:
            self.stream.close()

    def facts(self) -> Mapping[str, Any]:
        """Its workers, how many batches usually lie ready in it, and the changes of epoch while it was on."""
        shape = _shape(self.loader) | {"own_workers": self._own_workers}
        return {**super().facts(), **shape, **self._written, "ready": self.usual.level, "epoch_changes": self.epochs}

    def _running(self) -> Stream:
        stream = self.stream
        if stream is None:
            raise RuntimeError("the second loader was not started")
        return stream


def _start_method() -> str:
    # None where none was chosen yet: to ask without this would choose it for the script.
    chosen: Any = multiprocessing.get_start_method(allow_none=True)
    return str(chosen or ("fork" if sys.platform == "linux" and sys.version_info < (3, 14) else "forkserver or spawn"))
