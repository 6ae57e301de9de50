"""What a traced function takes for operations that an eager step hands over one by one, and what handing them over takes.

Prints a table of small models on one sample; no options, some minutes. `slowstep.calibration` holds usual values and bounds of what it
shows. Processor time counts: others may use the cores meanwhile. Of many calls the median counts.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import graph_operations as models
import keras
import numpy as np
import tensorflow as tf
from tensorflow.python import pywrap_tfe

WARMUP, CALLS = 10, 60
EXECUTES = ("TFE_Py_FastPathExecute", "TFE_Py_Execute", "TFE_Py_ExecuteCancelable")


def counted(act: Any) -> int:
    """How many operations a call hands over."""
    found, originals = [0], {name: getattr(pywrap_tfe, name) for name in EXECUTES}

    def counting(original: Any) -> Any:
        def execute(*args: Any) -> Any:
            found[0] += 1
            return original(*args)

        return execute

    for name, original in originals.items():
        setattr(pywrap_tfe, name, counting(original))
    try:
        act()
    finally:
        for name, original in originals.items():
            setattr(pywrap_tfe, name, original)
    return found[0]


def measure(make: Any, optimizer: str, *, eager: bool) -> tuple[int, float]:
    """Operations of a step, and its processor time in us."""
    model, shape = make()
    model.compile(optimizer, "mse", run_eagerly=eager)
    batch = np.random.rand(1, *shape).astype("float32"), np.random.rand(1, 1).astype("float32")
    data = tf.data.Dataset.from_tensors(batch).cache().repeat()
    model.fit(data, steps_per_epoch=WARMUP, verbose=0)
    call, iterator, times = model.train_function, iter(data), []
    for _ in range(WARMUP):
        call(iterator)
    for _ in range(CALLS):
        began = time.process_time()
        call(iterator)
        times.append(time.process_time() - began)
    return counted(lambda: call(iterator)), median(times) * 1e6


def main() -> None:
    print(f"{'model':22} {'':8} {'operations':>10} {'eager us':>9} {'each':>6} {'traced us':>9} {'each':>6} {'each beyond a call':>18}")
    for name, make in models.MODELS.items():
        for optimizer in ("sgd", "adam"):
            keras.utils.clear_session()
            operations, eager_us = measure(make, optimizer, eager=True)
            _, traced_us = measure(make, optimizer, eager=False)
            beyond = (traced_us - 500) / operations
            print(
                f"{name:22} {optimizer:8} {operations:10} {eager_us:9.0f} {eager_us / operations:6.1f} {traced_us:9.0f} "
                f"{traced_us / operations:6.2f} {beyond:18.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
