"""What a call that trains takes with TensorFlow however few samples it is given, per operation of its traced graph.

Prints a table of small models on one sample, each compiled by XLA and not; no options, some minutes. `slowstep.calibration` holds usual
values and bounds of what it shows. Of many calls the fast ones count (the twentieth part): others may use the cores meanwhile.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from tensorflow.python.eager.polymorphic_function import tracing_compilation

from slowstep.frameworks.tensorflow.inside._operations import elements_of, operations_of

WARMUP, CALLS = 10, 100
FAST = 0.05


def perceptron(depth: int, width: int) -> tuple[Any, tuple[int, ...]]:
    return keras.Sequential([*(layers.Dense(width, activation="relu") for _ in range(depth)), layers.Dense(1)]), (width,)


def convolutions(depth: int, channels: int) -> tuple[Any, tuple[int, ...]]:
    blocks = [
        layer for _ in range(depth) for layer in (layers.Conv2D(channels, 3, padding="same"), layers.BatchNormalization(), layers.ReLU())
    ]
    return keras.Sequential([*blocks, layers.GlobalAveragePooling2D(), layers.Dense(1)]), (4, 4, channels)


def transformer(depth: int, width: int) -> tuple[Any, tuple[int, ...]]:
    given = keras.Input((4, width))
    hidden = given
    for _ in range(depth):
        hidden = layers.LayerNormalization()(hidden + layers.MultiHeadAttention(2, width // 2)(hidden, hidden))
        hidden = layers.LayerNormalization()(hidden + layers.Dense(width)(layers.Dense(2 * width, activation="gelu")(hidden)))
    return keras.Model(given, layers.Dense(1)(layers.Flatten()(hidden))), (4, width)


MODELS: dict[str, Callable[[], tuple[Any, tuple[int, ...]]]] = {
    "perceptron 3 of 16": lambda: perceptron(3, 16),
    "perceptron 12 of 16": lambda: perceptron(12, 16),
    "perceptron 2 of 1024": lambda: perceptron(2, 1024),
    "convolutions 6 of 8": lambda: convolutions(6, 8),
    "convolutions 6 of 64": lambda: convolutions(6, 64),
    "transformer 2 of 32": lambda: transformer(2, 32),
}


def traced_by(act: Callable[[], None]) -> Any:
    """The function that is traced last."""
    original, found = tracing_compilation._create_concrete_function, []

    def trace(*args: Any, **kwargs: Any) -> Any:
        found.append(original(*args, **kwargs))
        return found[-1]

    tracing_compilation._create_concrete_function = trace
    try:
        act()
    finally:
        tracing_compilation._create_concrete_function = original
    return next(each for each in reversed(found) if b"multi_step" in each.name)


def measure(make: Callable[[], tuple[Any, tuple[int, ...]]], optimizer: str, *, jit: bool) -> tuple[Any, float, float]:
    """The function that is called, the seconds of a fast one, and its processor time."""
    model, shape = make()
    model.compile(optimizer, "mse", jit_compile=jit)
    batch = np.random.rand(1, *shape).astype("float32"), np.random.rand(1, 1).astype("float32")
    data = tf.data.Dataset.from_tensors(batch).cache().repeat()
    traced = traced_by(lambda: model.fit(data, steps_per_epoch=WARMUP, verbose=0))
    call, iterator, times = model.train_function, iter(data), []
    for _ in range(WARMUP):
        call(iterator)
    cpu = time.process_time()
    for _ in range(CALLS):
        began = time.perf_counter()
        call(iterator)
        times.append(time.perf_counter() - began)
    return traced, sorted(times)[int(FAST * CALLS)], (time.process_time() - cpu) / CALLS


def main() -> None:
    print(
        f"{'model':22} {'':8} {'XLA':4} {'least':>6} {'most':>6} {'elements':>10} {'us':>8} {'CPU us':>8} {'us/most':>8} {'ns/element':>10}"
    )
    for jit in (False, True):
        for name, make in MODELS.items():
            for optimizer in ("sgd", "adam"):
                keras.utils.clear_session()
                traced, seconds, cpu = measure(make, optimizer, jit=jit)
                counted, elements = operations_of(traced), elements_of(traced) or 0
                print(
                    f"{name:22} {optimizer:8} {'yes' if jit else 'no':4} {counted.fewest:6} {counted.most or 0:6} {elements:10} "
                    f"{seconds * 1e6:8.0f} {cpu * 1e6:8.0f} {seconds * 1e6 / (counted.most or 1):8.2f} {seconds * 1e9 / elements:10.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
