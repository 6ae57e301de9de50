"""The making of batches, in the training process and in workers: `fetch` of torch's two fetchers.

In the training process, fetches under 60 us are recorded only now and then, those in workers always.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from slowstep.record.fetches import MEASURED_EVERY_NS, TINY_NS, Fetches
from slowstep.record.hook import Hook, Undo, Unfit, all_of, find, replace
from slowstep.record.recorder import now
from slowstep.record.threads import ThreadState
from slowstep.record.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


def install(recorder: Recorder) -> Undo:
    """Replace both. Raises Unfit where torch has neither."""
    module = sys.modules.get("torch.utils.data._utils.fetch")
    if module is None:
        raise Unfit("torch.utils.data._utils.fetch is not imported with torch")
    fetches = Fetches(recorder)
    undos = []
    for name, has_length in (("_MapDatasetFetcher", True), ("_IterableDatasetFetcher", False)):
        fetcher = find(module, name)
        undos.append(replace(fetcher, "fetch", _timed(recorder, fetches, find(fetcher, "fetch"), has_length=has_length)))
    return all_of(undos)


def _timed(recorder: Recorder, fetches: Fetches, original: Any, *, has_length: bool) -> Any:
    """`fetch`, recorded; `has_length` tells that a list of indices makes as many samples."""
    local, live, record_tiny, timed = recorder.local, recorder.live, fetches.record_tiny, fetches.timed

    def recorded(me: ThreadState, fetcher: Any, index: Any) -> Any:
        me.fetching = True
        try:
            if not me.in_worker or not 0 < me.fetch_ns < TINY_NS or me.unmeasured_ns >= MEASURED_EVERY_NS:
                return timed(me, original, fetcher, index)
            t0 = now()
            batch = original(fetcher, index)
            record_tiny(me, t0, now())
            return batch
        except StopIteration:
            raise
        except BaseException:
            hide_own_frames()
            raise
        finally:
            me.fetching = False

    @functools.wraps(original)
    def fetch(self: Any, possibly_batched_index: Any) -> Any:
        me = local.me
        # Without an iterator it is nobody's request: a framework at play. And a data set may read another loader.
        if (me.making is None and not me.in_worker) or me.fetching or not live[0]:
            return original(self, possibly_batched_index)
        me.unmeasured_ns += me.fetch_ns
        if not me.in_worker and 0 < me.fetch_ns < TINY_NS and me.unmeasured_ns < MEASURED_EVERY_NS:
            # Not even its begin and end: the wait around it says as much, and this is a step of a tenth of a millisecond.
            if has_length and type(possibly_batched_index) is list:
                me.samples = len(possibly_batched_index)
            return original(self, possibly_batched_index)
        return recorded(me, self, possibly_batched_index)

    return fetch


HOOK = Hook(name="torch_fetch", module="torch", install=install)
