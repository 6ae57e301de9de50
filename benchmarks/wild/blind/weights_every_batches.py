"""Keras: a ranking network whose weights are kept every four batches, in case the machine is taken away."""

import argparse
import json
import os
import tempfile
import time

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from keras import layers

BATCH, SAMPLES = 128, 128 * 80


class Clock(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            self.start = time.perf_counter()


def build():
    item = keras.Input((8,), dtype="int32", name="items")
    user = keras.Input((64,), name="user")
    x = layers.Flatten()(layers.Embedding(20000, 48)(item))
    x = layers.Concatenate()([x, user])
    for width in (1024, 512, 256):
        x = layers.Dense(width, activation="relu")(x)
    return keras.Model([item, user], layers.Dense(1, activation="sigmoid")(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=480)
    parser.add_argument("--fixed", action="store_true", help="keep them at the end of each epoch")
    args = parser.parse_args()
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    items = rng.integers(0, 20000, (SAMPLES, 8)).astype("int32")
    user = rng.normal(size=(SAMPLES, 64)).astype("float32")
    clicked = (user[:, 0] + 0.1 * rng.normal(size=SAMPLES) > 0).astype("float32")
    model = build()
    model.compile(keras.optimizers.SGD(0.01), "binary_crossentropy", metrics=["accuracy"])
    epochs = max(2, args.steps * BATCH // SAMPLES)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        clock = Clock()
        keep = keras.callbacks.ModelCheckpoint(
            os.path.join(folder, "ranker.weights.h5"), save_weights_only=True, save_freq="epoch" if args.fixed else 4
        )
        model.fit([items, user], clicked, batch_size=BATCH, epochs=epochs, verbose=2, callbacks=[clock, keep])
        seconds = time.perf_counter() - clock.start
    samples = (epochs - 1) * SAMPLES
    print(json.dumps({"samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
