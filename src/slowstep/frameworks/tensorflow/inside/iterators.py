"""Iterators of tf.data that a compiled function is given: what making one takes, and what it reads, looked at between the calls."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.tensorflow.inside._pipelines import Pipelines
from slowstep.record.hook import Hook, timing_new
from slowstep.record.patch import Undo, find, replace
from slowstep.record.steps.named_spans import Label, NamedSpans
from slowstep.stages import LOADER_START

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_MODULE: Final = "tensorflow.python.data.ops.iterator_ops"
# TensorFlow optimises the pipeline's graph anew for each iterator, so for each epoch: 10 to 30 ms of a few stages (2.21, two cores).
MADE: Final = Label(LOADER_START, "preprocess")


def install(recorder: Recorder) -> Undo:
    """Replace what makes an iterator. Raises Unfit where this version has none, or does not tell what its pipelines count."""
    owner = find(sys.modules.get(_MODULE), "OwnedIterator")
    find(sys.modules["tensorflow"], "raw_ops.IteratorGetModelProto")
    pipelines, spans = recorder.shared(Pipelines), NamedSpans(recorder)

    def made(iterator: Any, began_ns: int) -> None:
        # What predictions and validation read is a part of these.
        if pipelines.made(iterator) and recorder.watched and not recorder.local.me.judging:
            spans.write(MADE, began_ns)

    return replace(owner, "__init__", timing_new(recorder, find(owner, "__init__"), made))


HOOK = Hook(name="tensorflow_iterators", module="tensorflow", install=install)
