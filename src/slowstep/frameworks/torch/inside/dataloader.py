"""Waits for the next batch, and the start of loaders: `_BaseDataLoaderIter.__next__` and `DataLoader.__iter__`."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from slowstep.frameworks.torch.inside._waits import IteratorWaits, Numbering
from slowstep.record.hook import RECORDS_WAITS, Hook
from slowstep.record.patch import Undo, all_of, find, replace
from slowstep.record.recorder import now
from slowstep.record.timing.tracebacks import hide_own_frames
from slowstep.record.writing.format import START

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


def install(recorder: Recorder) -> Undo:
    """Hook both. Raises Unfit where torch has neither."""
    module = sys.modules["torch.utils.data.dataloader"]
    iterator_class, loader_class = find(module, "_BaseDataLoaderIter"), find(module, "DataLoader")
    next_batch, start = find(iterator_class, "__next__"), find(loader_class, "__iter__")
    numbering = recorder.shared(Numbering)
    return all_of(
        [
            numbering.leave,
            replace(iterator_class, "__next__", IteratorWaits(recorder, next_batch, numbering).build_hook()),
            replace(loader_class, "__iter__", timed_start(recorder, start)),
        ]
    )


def timed_start(recorder: Recorder, original: Any) -> Any:
    """The start of a loader whose `__iter__` is `original`, recorded."""
    event, fault, live, numbering = recorder.event, recorder.fault, recorder.live, recorder.shared(Numbering)

    @functools.wraps(original)
    def __iter__(self: Any) -> Any:
        t0 = now()
        try:
            iterator = original(self)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        t1 = now()
        try:
            if live[0] and recorder.ensure_open():
                recorder.watch()
                known, loader = numbering.adopt(iterator, self)
                event(START, t0, t1, known.number, loader, self.num_workers)
        except Exception as error:  # the border: counted, and never raised into the training
            fault(error)
        return iterator

    vars(__iter__)[RECORDS_WAITS] = True
    return __iter__


HOOK = Hook(name="torch_dataloader", module="torch", install=install)
