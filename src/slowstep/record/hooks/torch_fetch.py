"""The making of batches, in the training process and in workers: `fetch` of torch's two fetchers."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from slowstep.record.fetches import Fetches
from slowstep.record.hook import Hook, Undo, Unfit, all_of, find, replace
from slowstep.record.recorder import now
from slowstep.record.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


def install(recorder: Recorder) -> Undo:
    """Replace both. Raises Unfit where torch has neither."""
    module = sys.modules.get("torch.utils.data._utils.fetch")
    if module is None:
        raise Unfit("torch.utils.data._utils.fetch is not imported with torch")
    fetches = Fetches(recorder)
    classes = [find(module, name) for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher")]
    return all_of([replace(fetcher, "fetch", _timed(recorder, fetches, find(fetcher, "fetch"))) for fetcher in classes])


def _timed(recorder: Recorder, fetches: Fetches, original: Any) -> Any:
    local, live, is_tiny, tiny, timed = recorder.local, recorder.live, fetches.is_tiny, fetches.tiny, fetches.timed

    @functools.wraps(original)
    def fetch(self: Any, possibly_batched_index: Any) -> Any:
        me = local.me
        # Without an iterator it is nobody's request: a loader inside a data set, or a framework at play.
        if not live[0] or (me.iterator < 0 and not me.in_worker):
            return original(self, possibly_batched_index)
        try:
            if not is_tiny(me):
                return timed(me, original, self, possibly_batched_index)
            t0 = now()
            batch = original(self, possibly_batched_index)
            tiny(me, t0, now())
            return batch
        except StopIteration:
            raise
        except BaseException:
            hide_own_frames()
            raise

    return fetch


HOOK = Hook(name="torch_fetch", module="torch", install=install)
