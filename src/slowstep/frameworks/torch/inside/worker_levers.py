"""Loader workers of trainings with levers: before each batch a worker looks whether one is to be switched in it, too.

Experiments are posted long after the workers were forked; this is what they were forked with.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, Unfit, all_of, find, replace

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


def install(recorder: Recorder) -> Undo:
    """Replace `_worker_loop`. Raises Unfit where torch has none that gets its tasks from a queue."""
    if not (recorder.experiment or recorder.levers):
        return all_of([])
    module = sys.modules.get("torch.utils.data._utils.worker")
    if module is None:
        raise Unfit("torch.utils.data._utils.worker is not imported with torch")
    return replace(module, "_worker_loop", following_loop(recorder, find(module, "_worker_loop")))


def following_loop(recorder: Recorder, original: Any) -> Any:
    """A loop of workers that looks for orders. Raises Unfit where it does not get its tasks from a queue."""
    signature = inspect.signature(original)
    if "index_queue" not in signature.parameters:
        raise Unfit("_worker_loop has no parameter index_queue")

    # As in torch_worker: a spawned worker unpickles whatever torch has under this name.
    @functools.wraps(original)
    def _worker_loop(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
            # Levers are not imported where nobody asked for them.
            follower = import_module("slowstep.frameworks.torch.inside.levers._worker_ends").Follower(recorder.folder)
            bound.arguments["index_queue"] = FollowingQueue(follower, bound.arguments["index_queue"], recorder.fault)
            args, kwargs = bound.args, bound.kwargs
        except Exception as error:  # the border: counted, and never raised into the training
            recorder.fault(error)
        return original(*args, **kwargs)

    return _worker_loop


class FollowingQueue:
    """What a worker is told to fetch; it looks for orders whenever it has been told. One that cannot follow works on without."""

    def __init__(self, follower: Any, queue: Any, fault: Callable[[Exception], None]) -> None:
        self._follow, self._queue, self._get, self._fault = follower.look, queue, queue.get, fault
        self._is_following = True

    def get(self, /, *args: Any, **kwargs: Any) -> Any:
        """Get the next task."""
        task = self._get(*args, **kwargs)
        if self._is_following:
            try:
                self._follow()
            except Exception as error:  # the border: counted, and never raised into the worker
                self._is_following = False
                self._fault(error)
        return task

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)


HOOK = Hook(name="torch_worker_levers", module="torch", install=install)
