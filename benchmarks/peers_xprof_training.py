"""A variant of examples/keras_case_study of which some steps are profiled as XProf needs them, each marked by a number.

python peers_xprof_training.py FOLDER --variant NAME ...
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

os.environ |= {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2"}

import keras
import tensorflow as tf

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "keras_case_study"
# Numbers of the first and last step in the trace: after compiling, and in all variants.
FIRST, LAST = 30, 59


class Profile(keras.callbacks.Callback):  # type: ignore[misc] # the class is of a module that is not typed
    """The steps FIRST to LAST in a trace, with the marks without which XProf says "No step time measured" of what Keras trains."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder
        self._step: Any = None

    def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
        if batch == FIRST:
            tf.profiler.experimental.start(self._folder)
        if FIRST <= batch <= LAST:
            self._step = tf.profiler.experimental.Trace("train", step_num=batch, _r=1)
            self._step.__enter__()

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None
        if batch == LAST:
            tf.profiler.experimental.stop()


def main() -> None:
    folder, sys.argv[1:] = sys.argv[1], sys.argv[2:]
    sys.path.insert(0, str(EXAMPLE))
    import train

    fit = keras.Model.fit

    def profiled(model: Any, *given: Any, callbacks: list[Any], **more: Any) -> Any:
        return fit(model, *given, callbacks=[*callbacks, Profile(folder)], **more)

    keras.Model.fit = profiled
    train.main()


if __name__ == "__main__":
    main()
