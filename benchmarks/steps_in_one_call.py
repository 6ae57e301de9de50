"""What a call that trains spares of each of its steps where it makes 16 of them: with Keras and TensorFlow, by the calls alone.

Prints a table of small models on one sample and on 64; no options, some minutes. `slowstep.calibration` holds a usual value and bounds of
what it shows. The calls of one step and those of 16 take turns, so that others on the machine meet both alike. By the clock the fast ones
count (the twentieth part), of processor time the median. What is between two calls (callbacks, the loop of `fit`) is no part of it:
recordings have that.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import graph_operations as models
import keras
import numpy as np
import tensorflow as tf

WARMUP, TURNS, TOGETHER = 4, 30, 16
FAST = 0.05


def made(make: Any, optimizer: str, data: Any, steps: int) -> Any:
    """A call that trains, and what it reads: traced, and called a few times."""
    model, _ = make()
    model.compile(optimizer, "mse", steps_per_execution=steps)
    model.fit(data, steps_per_epoch=WARMUP * steps, verbose=0)
    iterator = iter(data)
    return lambda: model.train_function(iterator)


def measure(make: Any, optimizer: str, samples: int) -> tuple[float, float, float, float]:
    """Of one step in a call of its own and in one of 16: us by the clock, and of processor time."""
    shape = make()[1]
    batch = np.random.rand(samples, *shape).astype("float32"), np.random.rand(samples, 1).astype("float32")
    data = tf.data.Dataset.from_tensors(batch).cache().repeat()
    alone, together = (made(make, optimizer, data, steps) for steps in (1, TOGETHER))
    wall: tuple[list[float], list[float]] = ([], [])
    cpu: tuple[list[float], list[float]] = ([], [])
    for _ in range(TURNS):
        for at, call, calls in ((0, alone, TOGETHER), (1, together, 1)):
            used = time.process_time()
            for _ in range(calls):
                began = time.perf_counter()
                call()
                wall[at].append((time.perf_counter() - began) / (TOGETHER // calls) * 1e6)
            cpu[at].append((time.process_time() - used) / TOGETHER * 1e6)
    fast = [sorted(times)[int(FAST * len(times))] for times in wall]
    return fast[0], fast[1], median(cpu[0]), median(cpu[1])


def main() -> None:
    print(f"{'model':22} {'':5} {'samples':>7} {'us alone':>9} {'in 16':>8} {'spared':>7} {'CPU alone':>9} {'in 16':>8} {'spared':>7}")
    whole = TOGETHER / (TOGETHER - 1)
    for name, make in models.MODELS.items():
        for optimizer, samples in (("sgd", 1), ("adam", 64)):
            keras.utils.clear_session()
            alone, together, cpu_alone, cpu_together = measure(make, optimizer, samples)
            print(
                f"{name:22} {optimizer:5} {samples:7} {alone:9.0f} {together:8.0f} {(alone - together) * whole:7.0f} "
                f"{cpu_alone:9.0f} {cpu_together:8.0f} {(cpu_alone - cpu_together) * whole:7.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
