"""Waits for the next batch, and the start of loaders: `_BaseDataLoaderIter.__next__` and `DataLoader.__iter__`."""

from __future__ import annotations

import functools
import itertools
import sys
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.batches import samples_in
from slowstep.record.cpu_marks import build_marks
from slowstep.record.fetches import TINY_NS
from slowstep.record.format import END, FAILED, READY_UNKNOWN, START, WAIT
from slowstep.record.hook import Hook, Undo, all_of, find, replace
from slowstep.record.known import Known
from slowstep.record.loaders import describe_iterator
from slowstep.record.recorder import now
from slowstep.record.threads import ThreadState
from slowstep.record.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_KNOWN: Final = "_slowstep_iterator"
# The hook of fetches passes over tiny ones unseen, until a wait is too long for one.
_NOT_TINY_NS: Final = 2 * TINY_NS


def install(recorder: Recorder) -> Undo:
    """Hook both. Raises Unfit where torch has neither."""
    module = sys.modules["torch.utils.data.dataloader"]
    iterator_class, loader_class = find(module, "_BaseDataLoaderIter"), find(module, "DataLoader")
    next_batch, start = find(iterator_class, "__next__"), find(loader_class, "__iter__")
    numbering = _Numbering(recorder)
    return all_of(
        [
            replace(iterator_class, "__next__", _timed_next(recorder, next_batch, numbering)),
            replace(loader_class, "__iter__", _timed_start(recorder, start, numbering)),
        ]
    )


class Iterator:
    """What is known of one iterator, kept on the iterator itself, which can be neither copied nor pickled."""

    __slots__ = ("batches", "has_workers", "in_order", "number")

    def __init__(self, number: int, state: dict[str, Any]) -> None:
        self.number = number
        self.batches = 0
        self.has_workers = state.get("_worker_result_queue") is not None
        self.in_order = bool(state.get("_in_order", True))


class _Numbering:
    """Numbers of loaders and iterators; each is described once."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._loaders = Known()
        recorder.forgetters.append(self._loaders.forget)
        # Not from 1 on again in a forked child: an iterator that it inherits keeps its number.
        self._next = itertools.count(1).__next__

    def adopt(self, state: dict[str, Any], loader: Any = None) -> tuple[Iterator, int]:
        """Number an iterator, given by its attributes, at each of its starts anew; returns what is known of it and its loader's number."""
        loader_number = 0
        if loader is not None:
            loader_number = self._loaders.get(loader) or self._loaders.add(loader)
        known = state[_KNOWN] = Iterator(self._next(), state)
        self._recorder.note({"kind": "iterator", "id": known.number, "loader": loader_number, **describe_iterator(state, loader)})
        return known, loader_number


def _timed_start(recorder: Recorder, original: Any, numbering: _Numbering) -> Any:
    event, fault, live = recorder.event, recorder.fault, recorder.live

    @functools.wraps(original)
    def __iter__(self: Any) -> Any:
        t0 = now()
        try:
            iterator = original(self)
        except BaseException:
            hide_own_frames()
            raise
        t1 = now()
        try:
            if live[0] and recorder.ensure_open():
                recorder.watch()
                known, loader = numbering.adopt(iterator.__dict__, self)
                event(START, t0, t1, known.number, loader, self.num_workers)
        except Exception as error:
            fault(error)
        return iterator

    return __iter__


def _timed_next(recorder: Recorder, original: Any, numbering: _Numbering) -> Any:
    event, fault, local, clock = recorder.event, recorder.fault, recorder.local, now
    mark_wait, _ = build_marks(recorder)

    def meet(state: dict[str, Any]) -> Iterator | None:
        """The first request to an iterator that was not seen to start."""
        try:
            recorder.ensure_open()
            recorder.watch()
            return numbering.adopt(state)[0]
        except Exception as error:
            fault(error)
            return None

    def failed(me: ThreadState, error: BaseException, known: Iterator, ready: int, t0: int, t1: int) -> None:
        ended = isinstance(error, StopIteration)
        if me.borrower is None:
            event(WAIT, t0, t1, known.number, -1, -1, END if ended else FAILED, ready)
        if not ended:
            hide_own_frames()

    def end(me: ThreadState, known: Iterator, index: int, batch: Any, ready: int, t0: int, t1: int) -> None:
        try:
            if me.borrower is None:
                event(WAIT, t0, t1, known.number, index, samples_in(batch), 0, ready)
            else:
                me.borrower.lend(known.number, index, samples_in(batch), ready)
            if me.marking:
                mark_wait(me, t1)
        except Exception as error:
            fault(error)

    def next_of_workers(me: ThreadState, iterator: Any, known: Iterator, state: dict[str, Any]) -> Any:
        ready = ready_batches(state)
        tasks = None if known.in_order else tuple(state.get("_task_info", ()))
        t0 = clock()
        try:
            batch = original(iterator)
        except BaseException as error:
            failed(me, error, known, ready, t0, clock())
            raise
        t1 = clock()
        end(me, known, batch_index(state, tasks), batch, ready, t0, t1)
        return batch

    @functools.wraps(original)
    def __next__(self: Any) -> Any:
        me = local.me
        known = self.__dict__.get(_KNOWN) or meet(self.__dict__)
        # A data set that reads another loader makes a batch, and waits for none.
        if me.making is not None or known is None:
            return original(self)
        me.waits += 1
        if known.has_workers:
            return next_of_workers(me, self, known, self.__dict__)
        me.making = known
        t0 = clock()
        try:
            batch = original(self)
        except BaseException as error:
            t1, me.making = clock(), None
            failed(me, error, known, READY_UNKNOWN, t0, t1)
            raise
        t1, me.making = clock(), None
        if t1 - t0 > _NOT_TINY_NS and me.fetch_ns < TINY_NS:
            me.fetch_ns = TINY_NS
        index = known.batches
        known.batches = index + 1
        if me.borrower is not None or me.marking:
            end(me, known, index, batch, READY_UNKNOWN, t0, t1)
            return batch
        try:
            samples, me.samples = me.samples, -1
            if samples < 0:
                samples = samples_in(batch)
            event(WAIT, t0, t1, known.number, index, samples, 0, READY_UNKNOWN)
        except Exception as error:
            fault(error)
        return batch

    return __next__


def batch_index(state: dict[str, Any], tasks: tuple[int, ...] | None) -> int:
    """Which batch was received, counted as the workers count. `tasks` were under way before, where their order is free."""
    if tasks is not None:
        left = state.get("_task_info", ())
        return next((task for task in tasks if task not in left), -1)
    return int(state.get("_rcvd_idx", 0)) - 1


def ready_batches(state: dict[str, Any]) -> int:
    """Batches that workers have made and nobody has asked for yet; READY_UNKNOWN where the system does not say."""
    queue = state["_worker_result_queue"]
    try:
        ready = int(queue.qsize())
        pinned = state.get("_data_queue")
        if pinned is not None and pinned is not queue:
            ready += pinned.qsize()
        for task in list(state["_task_info"].values()):
            ready += len(task) == 2
    except (NotImplementedError, KeyError, AttributeError):
        return READY_UNKNOWN
    return min(ready, READY_UNKNOWN - 1)


HOOK = Hook(name="torch_dataloader", module="torch", install=install)
