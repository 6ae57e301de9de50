"""Loader workers: `_worker_loop`, with its two queues seen through proxies that tell when a worker is idle and which batch it makes."""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.attributes import held_by
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, Unfit, find, replace
from slowstep.record.recorder import now
from slowstep.record.timing.tracebacks import PACKAGE
from slowstep.record.writing.format import IDLE

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_NEEDED: Final = ("index_queue", "data_queue", "worker_id", "num_workers")
_OWN_FRAME: Final = re.compile(rf'^  File "{re.escape(PACKAGE)}[^\n]*\n(?:    [^\n]*\n)*', re.MULTILINE)


def install(recorder: Recorder) -> Undo:
    """Replace it. Raises Unfit where its parameters are others than known."""
    module = sys.modules.get("torch.utils.data._utils.worker")
    if module is None:
        raise Unfit("torch.utils.data._utils.worker is not imported with torch")
    return replace(module, "_worker_loop", recorded_loop(recorder, find(module, "_worker_loop")))


def recorded_loop(recorder: Recorder, original: Any) -> Any:
    """A loop of workers, recorded. Raises Unfit where its parameters are others than known."""
    signature = inspect.signature(original)
    missing = [name for name in _NEEDED if name not in signature.parameters]
    if missing:
        raise Unfit(f"_worker_loop has no parameter {', '.join(missing)}")

    # `wraps` gives it the original's module and name: a spawned worker unpickles whatever torch has there, recorded or not.
    @functools.wraps(original)
    def _worker_loop(*args: Any, **kwargs: Any) -> Any:
        try:
            args, kwargs = _through_proxies(recorder, signature, args, kwargs)
        except Exception as error:  # the border: counted, and never raised into the training
            recorder.fault(error)
        try:
            return original(*args, **kwargs)
        finally:
            # Workers leave without running what atexit knows.
            recorder.stop("worker ended")

    return _worker_loop


def _through_proxies(recorder: Recorder, signature: inspect.Signature, args: Any, kwargs: Any) -> tuple[Any, Any]:
    bound = signature.bind(*args, **kwargs)
    given = bound.arguments
    recorder.role = {"role": "worker", "worker": given["worker_id"], "parent": os.getppid(), "worker_count": given["num_workers"]}
    recorder.local.me.in_worker = True
    recorder.watch()
    given["index_queue"] = IndexQueue(recorder, given["index_queue"])
    given["data_queue"] = DataQueue(given["data_queue"])
    return bound.args, bound.kwargs


class IndexQueue:
    """What a worker is told to fetch. Everything but the time of `get` is the queue's own affair."""

    def __init__(self, recorder: Recorder, queue: Any) -> None:
        self._recorder, self._queue = recorder, queue
        self._get, self._event, self._local = queue.get, recorder.event, recorder.local
        self._live = recorder.live

    def get(self, /, *args: Any, **kwargs: Any) -> Any:
        """Get the next task, recorded as idle time."""
        t0 = now()
        try:
            task = self._get(*args, **kwargs)
        finally:
            if self._live[0]:
                self._event(IDLE, t0, now())
            else:
                self._recorder.leave()
        if type(task) is tuple and task and isinstance(task[0], int):
            self._local.me.batch = task[0]
        return task

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)


class DataQueue:
    """Where a worker puts its batches; our frames are taken out of the text of an exception that it puts."""

    def __init__(self, queue: Any) -> None:
        self._queue, self._put = queue, queue.put

    def put(self, item: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Put a batch, or what went wrong in making it."""
        if type(item) is tuple and len(item) == 2:
            # Of the user's batch nothing is asked: one whose attributes are its items raises KeyError.
            text = held_by(item[1], "exc_msg")
            if type(text) is str and PACKAGE in text:
                item[1].exc_msg = _OWN_FRAME.sub("", text)
        return self._put(item, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)


HOOK = Hook(name="torch_worker", module="torch", install=install)
