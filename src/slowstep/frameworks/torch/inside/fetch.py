"""The making of batches, in the training process and in workers: `fetch` of torch's two fetchers.

In the training process, fetches under 120 us are recorded only now and then, those in workers always.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from slowstep.frameworks.torch.inside._fetches import MEASURED_EVERY_NS, FetchTimer
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, Unfit, all_of, find, replace
from slowstep.record.recorder import now
from slowstep.record.timing.tracebacks import hide_own_frames
from slowstep.record.writing.fastpath import TINY_NS
from slowstep.record.writing.threads import ThreadState

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


def install(recorder: Recorder) -> Undo:
    """Replace both. Raises Unfit where torch lacks one."""
    module = sys.modules.get("torch.utils.data._utils.fetch")
    if module is None:
        raise Unfit("torch.utils.data._utils.fetch is not imported with torch")
    fetchers = [find(module, name) for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher")]
    originals = [find(fetcher, "fetch") for fetcher in fetchers]
    fetches = FetchTimer(recorder)
    each = zip(fetchers, originals, strict=True)
    return all_of([replace(fetcher, "fetch", _timed(recorder, fetches, original)) for fetcher, original in each])


def is_passed_over(me: ThreadState) -> bool:
    """Whether this thread's fetches are tiny and the next measured one is not due yet."""
    return 0 < me.fetch_ns < TINY_NS and me.unmeasured_ns < MEASURED_EVERY_NS


def _timed(recorder: Recorder, fetches: FetchTimer, original: Any) -> Any:
    """`fetch`, recorded."""
    local, live, record_tiny, timed = recorder.local, recorder.live, fetches.record_tiny, fetches.timed

    def recorded(me: ThreadState, fetcher: Any, index: Any) -> Any:
        me.fetching = True
        try:
            if not is_passed_over(me):
                return timed(me, original, fetcher, index)
            t0 = now()
            batch = original(fetcher, index)
            record_tiny(me, t0, now())
            return batch
        except StopIteration:
            raise
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        finally:
            me.fetching = False

    @functools.wraps(original)
    def fetch(self: Any, possibly_batched_index: Any) -> Any:
        me = local.me
        # Not even the begin and end of a tiny one: the wait around it says as much, and this is a step of a tenth of a millisecond.
        # Without an iterator it is nobody's request: a framework at play. And a data set may read another loader.
        if me.quick is not None or (me.making is None and not me.in_worker) or me.fetching or not live[0]:
            return original(self, possibly_batched_index)
        me.unmeasured_ns += me.fetch_ns
        if not me.in_worker and is_passed_over(me):
            return original(self, possibly_batched_index)
        return recorded(me, self, possibly_batched_index)

    return fetch


HOOK = Hook(name="torch_fetch", module="torch", install=install)
