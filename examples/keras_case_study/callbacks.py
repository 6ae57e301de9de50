"""What is done after every step: the script's own throughput, and problems that can be planted there."""

import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

WARMUP_STEPS = 20
PICTURES, PICTURE_SIZE = 64, 96


class Throughput(keras.callbacks.Callback):
    """Counts samples after the first steps."""

    def __init__(self, batch_size: int) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.steps = 0
        self.started = 0.0

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        if self.steps == WARMUP_STEPS:
            self.started = time.perf_counter()

    def samples_per_s(self) -> float:
        return (self.steps - WARMUP_STEPS) * self.batch_size / (time.perf_counter() - self.started)


class SaveRandomPictures(keras.callbacks.Callback):
    """Makes and stores 64 pictures after every step, as a look at what a model draws does."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.rng = np.random.default_rng(0)

    def on_train_batch_end(self, batch, logs=None):
        for index in range(PICTURES):
            picture = self.rng.integers(0, 256, (PICTURE_SIZE, PICTURE_SIZE, 3), dtype=np.uint8)
            keras.utils.save_img(self.folder / f"{index}.png", picture, scale=False)


class FadeLearningRate(keras.callbacks.Callback):
    """A cosine over all steps. As a function of a Python number it is traced again for every step."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.done = 0

    def on_train_batch_end(self, batch, logs=None):
        self.done += 1
        self.model.optimizer.learning_rate.assign(self.rate(self.done))

    @tf.function
    def rate(self, done: int) -> tf.Tensor:
        phase = 0.0
        for part in range(20):  # of a smoother fade
            phase += tf.cos(np.pi * (done + part / 20) / self.steps)
        return 1e-3 * (1 + phase / 20) / 2
