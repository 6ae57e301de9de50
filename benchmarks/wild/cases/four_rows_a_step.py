"""Keras on PyTorch: a regression on rows of a table, four of them in a step."""

import argparse
import json
import os
import time

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
from keras import layers

ROWS, FEATURES = 1600, 24


class Clock(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            self.start = time.perf_counter()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch_size", type=int, default=4)
    parser.add_argument("--fixed", action="store_true", help="64 rows in a step")
    args = parser.parse_args()
    epochs = max(2, args.steps * args.batch_size // ROWS)
    if args.fixed:
        args.batch_size = 64
        epochs *= 8
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, FEATURES)).astype("float32")
    y = (x[:, :1] * x[:, 1:2] + np.sin(x[:, 2:3])).astype("float32")
    model = keras.Sequential([keras.Input((FEATURES,))])
    for _ in range(3):
        model.add(layers.Dense(64, activation="relu"))
    model.add(layers.Dense(1))
    model.compile(keras.optimizers.Adam(1e-3), "mse", metrics=["mae"])
    clock = Clock()
    model.fit(x, y, batch_size=args.batch_size, epochs=epochs, verbose=2, callbacks=[clock])
    seconds = time.perf_counter() - clock.start
    samples = (epochs - 1) * ROWS
    print(json.dumps({"samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
