"""What a compiled call of Keras' fit is about to fetch of: the loop that makes it tells."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any, Final

from slowstep.frameworks.keras.inside._input import TENSORFLOW_TRAINER
from slowstep.frameworks.tensorflow.inside._input.asked import Asking
from slowstep.record.attributes import held_by

_ITERATORS: Final = "tensorflow.python.data.ops.iterator_ops"
# Of batches that are divided among replicas.
_DIVIDED: Final = "tensorflow.python.distribute.input_lib"
_FIT: Final = "fit"
# A list of callbacks of the script's own may have methods around those of Keras.
_TELLS: Final = "on_train_batch_begin"


def asking_of(frame: FrameType | None) -> Asking | None:
    """What the loop in this frame, which has just told its callbacks of a batch, reads; None of a loop that is not that of `fit`."""
    while frame is not None and frame.f_code.co_name == _TELLS:
        frame = frame.f_back
    trainer = sys.modules.get(TENSORFLOW_TRAINER)
    if frame is None or frame.f_code.co_name != _FIT or frame.f_code.co_filename != getattr(trainer, "__file__", None):
        return None
    return _asking_in(frame.f_locals)


def _asking_in(loop: Mapping[str, Any]) -> Asking | None:
    iterator, epochs = loop.get("iterator"), loop.get("epoch_iterator")
    if not isinstance(iterator, (sys.modules[_ITERATORS].IteratorBase, getattr(sys.modules.get(_DIVIDED), "DistributedIteratorBase", ()))):
        return None
    known, asked, seen = (held_by(epochs, name) for name in ("_num_batches", "steps_per_epoch", "_steps_seen"))
    length, together = asked or known, held_by(epochs, "steps_per_execution") or 1
    return Asking(
        iterator=iterator,
        batches=together,
        is_last=bool(known and seen and seen >= known),
        # Of a length that it has counted itself Keras has counted the call that found nothing more.
        may_be_last=bool(known and seen and seen + together >= known) and not _was_known(loop.get("callbacks")),
        length_is_known=bool(length),
    )


def _was_known(callbacks: Any) -> bool:
    """Whether callbacks were told how many batches an epoch has: when `fit` began, that is."""
    params = held_by(callbacks, "params")
    return isinstance(params, dict) and params.get("steps") is not None
