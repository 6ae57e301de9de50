"""Waits for the next batch, and the making, start and end of loaders: `_BaseDataLoaderIter.__next__`, `DataLoader.__init__`,
`DataLoader.__iter__`, and `_MultiProcessingDataLoaderIter._shutdown_workers`, wherever its iterator is dropped.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from slowstep.frameworks.torch.inside._loader.between_passes import BetweenPasses
from slowstep.frameworks.torch.inside._waits import KNOWN, IteratorWaits, Numbering
from slowstep.record.hook import RECORDS_WAITS, Hook, reporting_new
from slowstep.record.patch import Undo, all_of, find, replace
from slowstep.record.recorder import now
from slowstep.record.timing.tracebacks import hide_own_frames
from slowstep.record.writing.format import NO_ITERATOR, SHUTDOWN, START

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


def install(recorder: Recorder) -> Undo:
    """Hook requests, constructors and starts. Raises Unfit where torch lacks one of them."""
    module = sys.modules["torch.utils.data.dataloader"]
    iterator_class, loader_class = find(module, "_BaseDataLoaderIter"), find(module, "DataLoader")
    next_batch, start, make = find(iterator_class, "__next__"), find(loader_class, "__iter__"), find(loader_class, "__init__")
    numbering = recorder.shared(Numbering)
    return all_of(
        [
            numbering.leave,
            replace(iterator_class, "__next__", IteratorWaits(recorder, next_batch, numbering).build_hook()),
            replace(loader_class, "__iter__", timed_start(recorder, start)),
            replace(loader_class, "__init__", noted_constructor(recorder, make)),
        ]
    )


def timed_start(recorder: Recorder, original: Any) -> Any:
    """The start of a loader whose `__iter__` is `original`, recorded."""
    event, fault, live, numbering = recorder.event, recorder.fault, recorder.live, recorder.shared(Numbering)
    passes = recorder.shared(BetweenPasses)

    def changed_in(loader: Any) -> list[str] | None:
        try:
            return passes.changed(loader) if live[0] else None
        except Exception as error:  # the border: counted, and never raised into the training
            fault(error)
            return None

    @functools.wraps(original)
    def __iter__(self: Any) -> Any:
        changed = changed_in(self)
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
                known, loader = numbering.adopt(iterator, self, changed)
                passes.begun(self, known.number)
                event(START, t0, t1, known.number, loader, self.num_workers)
        except Exception as error:  # the border: counted, and never raised into the training
            fault(error)
        return iterator

    vars(__iter__)[RECORDS_WAITS] = True
    return __iter__


def noted_constructor(recorder: Recorder, original: Any) -> Any:
    """The constructor of a loader, `original`: which functions it was called in is remembered."""
    return reporting_new(recorder, original, recorder.shared(Numbering).remember_maker)


def install_end(recorder: Recorder) -> Undo:
    """Replace what ends workers. Raises Unfit where torch ends them in another way."""
    iterator_class = find(sys.modules["torch.utils.data.dataloader"], "_MultiProcessingDataLoaderIter")
    return replace(iterator_class, "_shutdown_workers", timed_end(recorder, find(iterator_class, "_shutdown_workers")))


def timed_end(recorder: Recorder, original: Any) -> Any:
    """The end of workers by `original`, recorded."""
    event, fault, live = recorder.event, recorder.fault, recorder.live

    @functools.wraps(original)
    def _shutdown_workers(self: Any) -> Any:
        # Every iterator is ended once more where it is freed; one that never started has no such attribute.
        if not live[0] or vars(self).get("_shutdown", True):
            return original(self)
        t0 = now()
        try:
            return original(self)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        finally:
            try:
                if live[0]:
                    known = vars(self).get(KNOWN)
                    event(SHUTDOWN, t0, now(), NO_ITERATOR if known is None else known.number)
            except Exception as error:  # the border: counted, and never raised into the training
                fault(error)

    return _shutdown_workers


HOOKS = (
    Hook(name="torch_dataloader", module="torch", install=install),
    Hook(name="torch_loader_end", module="torch", install=install_end),
)
