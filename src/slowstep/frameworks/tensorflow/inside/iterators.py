"""Iterators of tf.data that a compiled function is given: what they read is looked at between its calls."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from slowstep.frameworks.tensorflow.inside._pipelines import Pipelines
from slowstep.record.hook import Hook, telling_of_new
from slowstep.record.patch import Undo, find, replace

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_MODULE: Final = "tensorflow.python.data.ops.iterator_ops"


def install(recorder: Recorder) -> Undo:
    """Replace what makes an iterator. Raises Unfit where this version has none, or does not tell what its pipelines count."""
    owner = find(sys.modules.get(_MODULE), "OwnedIterator")
    find(sys.modules["tensorflow"], "raw_ops.IteratorGetModelProto")
    return replace(owner, "__init__", telling_of_new(recorder, find(owner, "__init__"), recorder.shared(Pipelines).made))


HOOK = Hook(name="tensorflow_iterators", module="tensorflow", install=install)
