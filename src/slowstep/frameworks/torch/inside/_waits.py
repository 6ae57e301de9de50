"""Records requests for the next batch: what `__next__` of a loader's iterator is replaced by."""

from __future__ import annotations

import functools
import itertools
import sys
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.torch.inside._fetches import MEASURED_EVERY_NS
from slowstep.frameworks.torch.inside._framework import FRAMEWORK
from slowstep.frameworks.torch.inside._loader.between_passes import BetweenPasses
from slowstep.frameworks.torch.inside._loader.described import describe_iterator, even_batches, ready_batches
from slowstep.frameworks.torch.inside._loader.dropped import leave, time_drop
from slowstep.frameworks.torch.inside._loader.padding_looks import PaddingLooks
from slowstep.record.recorder import now
from slowstep.record.steps.cpu_marks import build_marks
from slowstep.record.steps.known import Known
from slowstep.record.timing.batches import samples_in
from slowstep.record.timing.callers import functions_around
from slowstep.record.timing.tracebacks import hide_own_frames
from slowstep.record.writing.fastpath import MOST_NUMBER, NOT_TINY_NS, TINY_NS
from slowstep.record.writing.format import END, FAILED, READY_UNKNOWN, WAIT
from slowstep.record.writing.threads import Iterator, ThreadState

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

KNOWN: Final = "_slowstep_iterator"
_UNKNOWN: Final = -1
# An index below it cannot grow beyond MOST_NUMBER until marks are due again.
_MOST_BATCHES: Final = MOST_NUMBER >> 1
# Loaders that were made and not read yet: what made others before them is forgotten.
_MOST_UNREAD: Final = 64


class Numbering:
    """Numbers of loaders and iterators; each is described once."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._loaders, self._iterators, self._made = Known(), Known(), Known()
        self._makers: dict[int, list[list[Any]]] = {}
        recorder.forgetters.append(self._loaders.forget)
        # Not from 1 on again in a forked child: an iterator that it inherits keeps its number.
        self._next = itertools.count(1).__next__

    def adopt(self, iterator: Any, loader: Any = None, changed: list[str] | None = None) -> tuple[Iterator, int]:
        """Number an iterator, at each of its starts anew; returns what is known of it and its loader's number. `changed` are attributes of
        its data set that the script has changed since the pass before.
        """
        state = iterator.__dict__
        loader_number = 0
        if loader is not None:
            loader_number = self._loaders.get(loader) or self._loaders.add(loader)
        if self._iterators.get(iterator) is None:
            self._iterators.add(iterator)
        known = state[KNOWN] = _known(self._next(), state)
        time_drop(self._recorder, iterator, known.number)
        of = {"id": known.number, "loader": loader_number, "framework": FRAMEWORK.name}
        # Of a loader's first pass: where it was made is the same in all others.
        made_in = self._makers.pop(self._made.get(loader) or 0, None)
        self._recorder.note({"kind": "iterator", **of, **describe_iterator(state, loader), "made_in": made_in, "changed": changed})
        return known, loader_number

    def remember_maker(self, loader: Any) -> None:
        """Keep which functions the caller of a loader's constructor is in, until the loader is read. To be called by what replaces that."""
        if not self._recorder.live[0]:
            return
        if len(self._makers) >= _MOST_UNREAD:
            del self._makers[next(iter(self._makers))]
        self._makers[self._made.get(loader) or self._made.add(loader)] = functions_around(sys._getframe(2))

    def leave(self) -> None:
        """Take what we know of iterators off them: they may outlive the recording, and the next one numbers them anew."""
        for iterator in self._iterators.living():
            iterator.__dict__.pop(KNOWN, None)
            leave(iterator)


class IteratorWaits:
    """The requests of all iterators of one class whose `__next__` is `original`."""

    def __init__(self, recorder: Recorder, original: Any, numbering: Numbering) -> None:
        self._recorder, self._original, self._numbering = recorder, original, numbering
        self._event, self._fault = recorder.event, recorder.fault
        self._mark, _ = build_marks(recorder)
        self._padding = recorder.shared(PaddingLooks)
        self._passes = recorder.shared(BetweenPasses)

    def build_hook(self) -> Any:
        """What `original` is to be replaced by. Its own lines are for batches that take next to no time; `_request` does all others."""
        original, request, failed, count = self._original, self._request, self._failed, self._count
        release, local, clock, after_waits = self._recorder.release, self._recorder.local, now, self._recorder.after_waits

        @functools.wraps(original)
        def __next__(self: Any) -> Any:
            me = local.me
            known = me.quick
            if known is None or self.__dict__.get(KNOWN) is not known:
                return request(me, self)
            if me.held is not None:
                release(me)
            me.making = known
            t0 = clock()
            try:
                batch = original(self)
            except BaseException as error:  # passed on; the call is recorded as failed
                failed(me, error, known, READY_UNKNOWN, t0, clock())
                raise
            finally:
                me.making = None
                for told in after_waits:
                    told()
            t1 = clock()
            samples = known.samples
            me.held = (t0, t1, known, samples if samples >= 0 else count(batch))
            return batch

        return __next__

    def _request(self, me: ThreadState, iterator: Any) -> Any:
        me.quick = None
        if me.held is not None or me.ended:
            self._recorder.release(me)
        known = iterator.__dict__.get(KNOWN) or self._meet(iterator)
        # A data set that reads another loader makes a batch, and waits for none.
        if me.making is not None or known is None:
            return self._original(iterator)
        me.waits += 1
        for told in self._recorder.before_waits:
            told()
        try:
            return self._request_workers(me, iterator, known) if known.has_workers else self._request_here(me, iterator, known)
        finally:
            # Behind the last batch too: whoever looks one ahead gives the device work then.
            for told in self._recorder.after_waits:
                told()

    def _meet(self, iterator: Any) -> Iterator | None:
        """The first request to an iterator that was not seen to start."""
        try:
            self._recorder.ensure_open()
            self._recorder.watch()
            return self._numbering.adopt(iterator)[0]
        except Exception as error:  # the border: counted, and never raised into the training
            self._fault(error)
            return None

    def _request_workers(self, me: ThreadState, iterator: Any, known: Iterator) -> Any:
        state = iterator.__dict__
        ready = ready_batches(state)
        tasks = None if known.in_order else tuple(state.get("_task_info", ()))
        t0 = now()
        try:
            batch = self._original(iterator)
        except BaseException as error:  # passed on; the call is recorded as failed
            self._failed(me, error, known, ready, t0, now())
            raise
        t1 = now()
        self._end(me, known, batch_index(state, tasks), batch, ready, t0, t1)
        return batch

    def _request_here(self, me: ThreadState, iterator: Any, known: Iterator) -> Any:
        """A batch that this thread makes itself."""
        me.making = known
        t0 = now()
        try:
            batch = self._original(iterator)
        except BaseException as error:  # passed on; the call is recorded as failed
            self._failed(me, error, known, READY_UNKNOWN, t0, now())
            raise
        finally:
            me.making = None
        t1 = now()
        index = known.batches
        known.batches = index + 1
        self._end(me, known, index, batch, READY_UNKNOWN, t0, t1)
        is_tiny = 0 < me.fetch_ns < TINY_NS and t1 - t0 <= NOT_TINY_NS
        if is_tiny and known.number <= MOST_NUMBER and index < _MOST_BATCHES and not (me.marking or me.in_worker or me.borrower):
            # Until marks are due again; the first fetch then is measured.
            me.quick, me.unmeasured_ns = known, MEASURED_EVERY_NS
        return batch

    def _failed(self, me: ThreadState, error: BaseException, known: Iterator, ready: int, t0: int, t1: int) -> None:
        ended = isinstance(error, StopIteration)
        if ended and not known.has_workers:
            self._ended(known)
        if me.ended:
            # What comes after an epoch may take long.
            self._recorder.write_ended(me)
        if me.borrower is None:
            self._event(WAIT, t0, t1, known.number, _UNKNOWN, _UNKNOWN, END if ended else FAILED, ready)
        if not ended:
            hide_own_frames()

    def _ended(self, known: Iterator) -> None:
        try:
            self._passes.ended(known.number)
        except Exception as error:  # the border: counted, and never raised into the training
            self._fault(error)

    def _end(self, me: ThreadState, known: Iterator, index: int, batch: Any, ready: int, t0: int, t1: int) -> None:
        try:
            if me.borrower is None:
                self._event(WAIT, t0, t1, known.number, index, samples_in(batch), 0, ready)
            else:
                me.borrower.lend(known.number, index, samples_in(batch), ready)
            if me.marking:
                self._mark(me, t1)
            if t1 >= self._padding.due_ns and not me.in_worker:
                self._padding.look(batch, known.number, index, t1)
            if me.when_received is not None:
                me.when_received(me)
        except Exception as error:  # the border: counted, and never raised into the training
            self._fault(error)

    def _count(self, batch: Any) -> int:
        try:
            return samples_in(batch)
        except Exception as error:  # the border: counted, and never raised into the training
            self._fault(error)
            return _UNKNOWN


def _known(number: int, state: dict[str, Any]) -> Iterator:
    known = Iterator(
        number,
        # Of an iterator that is met on its way, some batches have been asked for already.
        batches=int(state.get("_num_yielded") or 0),
        has_workers=state.get("_worker_result_queue") is not None,
        in_order=bool(state.get("_in_order", True)),
    )
    known.samples, known.last, known.left = even_batches(state)
    return known


def batch_index(state: dict[str, Any], tasks: tuple[int, ...] | None) -> int:
    """Which batch was received, counted as the workers count. `tasks` were under way before, where their order is free."""
    if tasks is not None:
        left = state.get("_task_info", ())
        return next((task for task in tasks if task not in left), _UNKNOWN)
    return int(state.get("_rcvd_idx", 0)) - 1
