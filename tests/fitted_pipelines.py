"""Trainings by Keras' fit that say of each batch which it was, with a lever of their pipeline switched at known batches.

To be imported where TensorFlow is installed, and Keras computes with it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import keras
import tensorflow as tf

from slowstep.record.experiment.lever import LeverSpec, NotApplicable
from slowstep.record.experiment.training import Training
from slowstep.record.recorder import Recorder

# Batches after which a lever is made ready, switched on and off, and removed.
PREPARED, ON, OFF, ON_AGAIN, OFF_AGAIN, REMOVED = 2, 22, 26, 29, 32, 35
Acts = dict[int, Callable[[], object]]


class Tells(keras.Model):  # type: ignore[misc]
    """Says of each batch which it was; `traced` counts how often the step was."""

    traced = 0

    def train_step(self, data: Any) -> Any:
        self.traced += 1
        return {"seen": tf.reduce_max(data[0] if isinstance(data, tuple) else data)}


class Follows(keras.callbacks.Callback):  # type: ignore[misc]
    """Does something after so many batches, and keeps what they say of themselves."""

    def __init__(self, acts: Acts) -> None:
        super().__init__()
        self.seen: list[int] = []
        self._acts = acts

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.seen.append(int(logs["seen"]))
        self._acts.get(len(self.seen), lambda: None)()


class LeveredPipeline:
    """The lever in a training; `refused` is why it has no meaning there, `ready` what it said of that."""

    def __init__(self, recorder: Recorder, lever: ModuleType) -> None:
        self._recorder, self._lever = recorder, lever
        self.change: Any = None
        self.refused: str | None = None
        self.ready: list[bool] = []

    def prepare(self) -> None:
        try:
            self.change = self._lever.prepare(Training(self._recorder), LeverSpec(name="any", value="3"))
        except NotApplicable as error:
            self.refused = str(error)

    def ask(self) -> None:
        """Whether it is ready, where it was not refused."""
        if self.change is None or self.refused is not None:
            return
        try:
            self.ready.append(self.change.ready())
        except NotApplicable as error:
            self.refused = str(error)

    def acts(self) -> Acts:
        on, off = (lambda: self.change.on()), (lambda: self.change.off())
        asks: Acts = dict.fromkeys(range(PREPARED + 1, ON), self.ask)
        return {**asks, PREPARED: self.prepare, ON: on, OFF: off, ON_AGAIN: on, OFF_AGAIN: off, REMOVED: lambda: self.change.remove()}

    def asks(self) -> Acts:
        """It is made ready, and never on."""
        return {batch: act for batch, act in self.acts().items() if batch < ON}


def trained(batches: Any, acts: Acts, **given: Any) -> tuple[list[int], Tells]:
    model, follows = Tells(), Follows(acts)
    model.compile("sgd")
    model.fit(batches, verbose=0, shuffle=False, callbacks=[follows], **given)
    return follows.seen, model


def as_row(number: Any) -> Any:
    return tf.cast(number, tf.float32)[None]
