"""What a call of a function in Python takes, with what it does itself, where Python is most of a forward: of small models, few samples.

Prints a table; one core, no options. Processor time of the thread, so that others may compute beside it. Of PyTorch's own layers most is
the dispatch of operations, which is told by their number; what `slowstep.calibration` holds is thrice the most of Keras'.
"""

from __future__ import annotations

import cProfile
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
import torch
from keras import layers
from torch import nn

REPEATS = 40


def of_keras(*shape: int) -> Callable[[list[Any]], Callable[[], object]]:
    def build(made: list[Any]) -> Callable[[], object]:
        model = keras.Sequential([keras.Input(shape), *made])
        data = torch.from_numpy(np.zeros((2, *shape), "float32"))
        return lambda: model(data, training=True)

    return build


def of_torch(model: nn.Module, *shape: int) -> Callable[[], object]:
    data = torch.zeros(2, *shape)
    return lambda: model(data)


def models() -> dict[str, Callable[[], object]]:
    """A forward of each."""
    convolved = [layers.Conv2D(4, 3), layers.BatchNormalization(), layers.Flatten(), layers.Dense(2)]
    deep = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.1)) for _ in range(30)))
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 4)
    return {
        "Keras on PyTorch, a perceptron": of_keras(24)([*(layers.Dense(64, activation="relu") for _ in range(3)), layers.Dense(1)]),
        "Keras on PyTorch, convolutions": of_keras(8, 8, 3)(convolved),
        "Keras on PyTorch, an LSTM": of_keras(6, 4)([layers.LSTM(8), layers.Dense(1)]),
        "PyTorch, 90 layers": of_torch(deep, 8),
        "PyTorch, a transformer": of_torch(encoder, 4, 16),
    }


def calls_in(forward: Callable[[], object]) -> int:
    profiler = cProfile.Profile(builtins=False)
    profiler.enable()
    forward()
    profiler.disable()
    return sum(entry.callcount for entry in profiler.getstats())  # type: ignore[attr-defined]


def main() -> None:
    torch.set_num_threads(1)
    print("| forward | us | calls | us a call |\n| --- | --- | --- | --- |")
    for name, forward in models().items():
        for _ in range(5):
            forward()
        times = []
        for _ in range(REPEATS):
            begun = time.thread_time_ns()
            forward()
            times.append(time.thread_time_ns() - begun)
        us, calls = statistics.median(times) / 1e3, calls_in(forward)
        print(f"| {name} | {us:.0f} | {calls} | {us / calls:.2f} |")


if __name__ == "__main__":
    main()
