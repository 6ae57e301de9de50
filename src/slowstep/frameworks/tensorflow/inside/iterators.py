"""Iterators of tf.data that a compiled function is given: what they read is looked at between its calls."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.tensorflow.inside._pipelines import Pipelines
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, find, replace
from slowstep.record.timing.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_MODULE: Final = "tensorflow.python.data.ops.iterator_ops"


def install(recorder: Recorder) -> Undo:
    """Replace what makes an iterator. Raises Unfit where this version has none, or does not tell what its pipelines count."""
    owner = find(sys.modules.get(_MODULE), "OwnedIterator")
    find(sys.modules["tensorflow"], "data.experimental.get_model_proto")
    original, pipelines = find(owner, "__init__"), recorder.shared(Pipelines)

    @functools.wraps(original)
    def __init__(self: Any, /, *args: Any, **kwargs: Any) -> None:
        try:
            original(self, *args, **kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        pipelines.made(self)

    return replace(owner, "__init__", __init__)


HOOK = Hook(name="tensorflow_iterators", module="tensorflow", install=install)
