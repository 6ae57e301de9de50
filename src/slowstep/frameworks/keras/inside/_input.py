"""What is known of the waits for input in the calls that train, by what Keras computes with."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.keras.inside._given import DATASET
from slowstep.frameworks.tensorflow.inside._pipelines import Pipelines
from slowstep.frameworks.tensorflow.inside.fetches import CountedFetches
from slowstep.record.recorder import now
from slowstep.record.steps.counted import CountedInput

if TYPE_CHECKING:
    from types import FrameType

    from slowstep.record.recorder import Recorder

# To read the counters takes a quarter of a millisecond (TensorFlow 2.21, two busy cores).
_READ_EVERY_NS: Final = 500_000_000
TENSORFLOW_TRAINER: Final = "keras.src.backend.tensorflow.trainer"
_ENTRIES: Final = ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch")


class _Received(threading.local):
    """When the call of this thread that trains had its first batch."""

    ns = 0


class Input:
    """Waits of this process: those that a compiled call counts itself, and those that it makes in Python."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._counted: CountedInput | None = None
        self._fetches = recorder.shared(CountedFetches)
        self._fetches.owner = fetches_one_batch
        self._pipelines = recorder.shared(Pipelines)
        self._pipelines.feeds = feeds_training
        self._read_ns = 0
        self._received = _Received()
        recorder.forgetters.append(self.forget)

    def forget(self) -> None:
        """Start anew, as in a forked child."""
        self._counted = None
        self._read_ns = self._received.ns = 0

    def is_counted(self, model: Any) -> bool:
        """Whether the compiled calls that a model's `fit` makes just now count their waits: compiled anew, it makes others."""
        return self._fetches.are_counted(getattr(model, "train_function", None))

    def count(self, at_ns: int, *, last: bool = False) -> None:
        """Read the counters when that is due. Raises what TensorFlow does."""
        if self._fetches.are_any_counted and (last or at_ns >= self._read_ns + _READ_EVERY_NS):
            if self._counted is None:
                self._counted = CountedInput(self._recorder, dataset=DATASET, num_workers=None)
            batches, waited_ns, samples = self._fetches.read()
            self._counted.read(batches, waited_ns, None, samples)
            self._read_ns = at_ns

    def look(self, at_ns: int) -> None:
        """Between two calls: read what the stages of the input have counted, when that is due. Raises nothing."""
        self._pipelines.read(at_ns)

    def begins(self) -> None:
        """A call that trains begins now, and has no batch yet."""
        self._received.ns = 0

    def received(self) -> None:
        """A batch was received in Python."""
        self._received.ns = self._received.ns or now()

    def received_ns(self, began_ns: int) -> int:
        """When a call that began then had its first batch; its begin where it asks for none in Python."""
        return max(began_ns, self._received.ns)


def fetches_one_batch() -> Any:
    """The function that is traced just now where it trains on one batch a call, in one place: then what its fetch takes is waited for.

    None else: of several batches the next is fetched while the last is trained on.
    """
    model = _training_model(sys._getframe(1))
    if model is None or getattr(model, "steps_per_execution", 1) != 1:
        return None
    strategy = getattr(model, "distribute_strategy", None)
    return model.train_function if int(getattr(strategy, "num_replicas_in_sync", 1)) == 1 else None


def feeds_training() -> bool:
    """Whether what is read just now is made for a `fit` on this thread, and not for its validation."""
    return _training_model(sys._getframe(1)) is not None


def _training_model(frame: FrameType | None) -> Any:
    """The model of the `fit` that runs on this thread, unless it validates."""
    file = getattr(sys.modules.get(TENSORFLOW_TRAINER), "__file__", None)
    while frame is not None:
        if frame.f_code.co_name in _ENTRIES and frame.f_code.co_filename == file:
            return frame.f_locals.get("self") if frame.f_code.co_name == "fit" else None
        frame = frame.f_back
    return None
