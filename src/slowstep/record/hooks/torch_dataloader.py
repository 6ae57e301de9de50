"""Waits for the next batch, and the start of loaders: `_BaseDataLoaderIter.__next__` and `DataLoader.__iter__`."""

from __future__ import annotations

import functools
import itertools
import sys
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.batches import samples_in
from slowstep.record.cpu_marks import build_marks
from slowstep.record.format import END, FAILED, READY_UNKNOWN, START, WAIT
from slowstep.record.hook import Hook, Undo, all_of, find, replace
from slowstep.record.known import Known
from slowstep.record.loaders import describe_iterator
from slowstep.record.recorder import now
from slowstep.record.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# Written on the iterator itself, which can be neither copied nor pickled: its number.
_NUMBER: Final = "_slowstep_iterator"


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


class _Numbering:
    """Numbers of loaders and iterators; each is described once."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._loaders = Known()
        recorder.forgetters.append(self._loaders.forget)
        # Not from 1 on again in a forked child: an iterator that it inherits keeps its number.
        self._next = itertools.count(1).__next__

    def adopt(self, state: dict[str, Any], loader: Any = None) -> tuple[int, int]:
        """Number an iterator, given by its attributes, at each of its starts anew; returns its number and its loader's."""
        loader_number = 0
        if loader is not None:
            loader_number = self._loaders.get(loader) or self._loaders.add(loader)
        number = state[_NUMBER] = self._next()
        self._recorder.note({"kind": "iterator", "id": number, "loader": loader_number, **describe_iterator(state, loader)})
        return number, loader_number


def _timed_start(recorder: Recorder, original: Any, numbering: _Numbering) -> Any:
    event, fault, page, live = recorder.event, recorder.fault, recorder.page.bytes, recorder.live

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
            if not (page[0] and live[0]):
                return iterator
            recorder.ensure_open()
            number, loader = numbering.adopt(iterator.__dict__, self)
            event(START, t0, t1, number, loader, self.num_workers)
        except Exception as error:
            fault(error)
        return iterator

    return __iter__


def _timed_next(recorder: Recorder, original: Any, numbering: _Numbering) -> Any:
    event, fault, local = recorder.event, recorder.fault, recorder.local
    page, live, watch, leave = recorder.page.bytes, recorder.live, recorder.watch, recorder.leave
    mark_wait, _ = build_marks(recorder)

    def begin(state: dict[str, Any]) -> tuple[int, int, Any]:
        """The iterator's number, how many batches are ready, and where needed the tasks under way."""
        if not (page[0] and live[0]):
            leave()
        if not local.waits:
            watch()
        local.waits += 1
        number = state.get(_NUMBER)
        if number is None:
            recorder.ensure_open()
            number = numbering.adopt(state)[0]
        if "_worker_result_queue" not in state:
            return number, READY_UNKNOWN, None
        return number, ready_batches(state), None if state.get("_in_order", True) else tuple(state["_task_info"])

    def end(state: dict[str, Any], batch: Any, number: int, ready: int, tasks: Any, t0: int, t1: int) -> None:
        index, samples = batch_index(state, tasks), samples_in(batch)
        borrower = local.borrower
        if borrower is not None:
            borrower.lend(number, index, samples, ready)
        else:
            event(WAIT, t0, t1, number, index, samples, 0, ready)
            mark_wait(t1)

    def failed(error: BaseException, number: int, ready: int, t0: int, t1: int) -> None:
        ended = isinstance(error, StopIteration)
        if local.borrower is None:
            event(WAIT, t0, t1, number, -1, -1, END if ended else FAILED, ready)
        if not ended:
            hide_own_frames()

    @functools.wraps(original)
    def __next__(self: Any) -> Any:
        if local.wait_depth:
            # A data set that reads another loader: that is the making of a batch, not a wait for one.
            return original(self)
        try:
            state = self.__dict__
            number, ready, tasks = begin(state)
            local.iterator, local.batch = number, state["_num_yielded"]
        except Exception as error:
            fault(error)
            return original(self)
        local.wait_depth = 1
        t0 = now()
        try:
            batch = original(self)
        except BaseException as error:
            t1 = now()
            local.wait_depth, local.iterator = 0, -1
            failed(error, number, ready, t0, t1)
            raise
        t1 = now()
        local.wait_depth, local.iterator = 0, -1
        try:
            end(state, batch, number, ready, tasks, t0, t1)
        except Exception as error:
            fault(error)
        return batch

    return __next__


def batch_index(state: dict[str, Any], tasks: tuple[int, ...] | None) -> int:
    """Which batch was received, counted as the workers count. `tasks` were under way before, where their order is free."""
    if tasks is not None:
        left = state["_task_info"]
        return next((task for task in tasks if task not in left), -1)
    received = state.get("_rcvd_idx")
    return int(state["_num_yielded"] if received is None else received) - 1


def ready_batches(state: dict[str, Any]) -> int:
    """Batches that were made and not yet asked for, from an iterator's attributes; READY_UNKNOWN where it has no workers."""
    queue = state.get("_worker_result_queue")
    if queue is None:
        return READY_UNKNOWN
    try:
        ready = int(queue.qsize())
    except NotImplementedError:
        return READY_UNKNOWN
    pinned = state.get("_data_queue")
    if pinned is not None and pinned is not queue:
        ready += pinned.qsize()
    for task in list(state["_task_info"].values()):
        ready += len(task) == 2
    return min(ready, READY_UNKNOWN - 1)


HOOK = Hook(name="torch_dataloader", module="torch", install=install)
