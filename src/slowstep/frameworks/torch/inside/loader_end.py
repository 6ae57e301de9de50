"""The end of a loader's workers: `_MultiProcessingDataLoaderIter._shutdown_workers`, wherever its iterator is dropped."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from slowstep.frameworks.torch.inside._waits import KNOWN
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, find, replace
from slowstep.record.recorder import now
from slowstep.record.timing.tracebacks import hide_own_frames
from slowstep.record.writing.format import NO_ITERATOR, SHUTDOWN

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


def install(recorder: Recorder) -> Undo:
    """Replace it. Raises Unfit where torch ends workers in another way."""
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


HOOK = Hook(name="torch_loader_end", module="torch", install=install)
