"""Iterators of tf.data that a compiled function is given: what making one takes, and what it reads, looked at between the calls."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.tensorflow.inside._pipelines import Pipelines
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, find, replace
from slowstep.record.recorder import now
from slowstep.record.steps.named_spans import Label, NamedSpans
from slowstep.record.timing.tracebacks import hide_own_frames
from slowstep.stages import LOADER_START

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_MODULE: Final = "tensorflow.python.data.ops.iterator_ops"
# TensorFlow optimises the pipeline's graph anew for each iterator, so for each epoch: 10 to 30 ms of a few stages (2.21, two cores).
_MADE: Final = Label(LOADER_START, "preprocess")


def install(recorder: Recorder) -> Undo:
    """Replace what makes an iterator. Raises Unfit where this version has none, or does not tell what its pipelines count."""
    owner = find(sys.modules.get(_MODULE), "OwnedIterator")
    find(sys.modules["tensorflow"], "raw_ops.IteratorGetModelProto")
    return replace(owner, "__init__", _timed(recorder, find(owner, "__init__")))


def _timed(recorder: Recorder, original: Any) -> Any:
    """The constructor of an iterator, `original`; what it takes is written down where a compiled function that trains reads it."""
    pipelines, spans = recorder.shared(Pipelines), NamedSpans(recorder)

    @functools.wraps(original)
    def __init__(self: Any, /, *args: Any, **kwargs: Any) -> None:
        began_ns = now()
        try:
            original(self, *args, **kwargs)
        except BaseException:  # passed on, without our frames in the traceback
            hide_own_frames()
            raise
        try:
            if pipelines.made(self) and recorder.watched:
                spans.write(_MADE, began_ns)
        except Exception as error:  # the border: counted, and never raised into the training
            recorder.fault(error)

    return __init__


HOOK = Hook(name="tensorflow_iterators", module="tensorflow", install=install)
