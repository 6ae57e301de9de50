"""Keras autoencoder; a callback shows how it restores some held-out pictures while it trains."""

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
from PIL import Image

SIZE, BATCH, SAMPLES = 32, 32, 1600


class Reconstructions(keras.callbacks.Callback):
    """Pictures and what becomes of them, one above the other, in a file."""

    def __init__(self, pictures, folder, every):
        super().__init__()
        self.pictures, self.folder, self.every = pictures, folder, every

    def on_train_batch_end(self, batch, logs=None):
        if batch % self.every:
            return
        restored = self.model.predict(self.pictures, verbose=0)
        rows = [np.concatenate(list(part[..., 0]), axis=1) for part in (self.pictures, restored)]
        canvas = (np.concatenate(rows).clip(0, 1) * 255).astype(np.uint8)
        Image.fromarray(canvas).save(os.path.join(self.folder, f"restored_{batch:05d}.png"))


class Clock(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            self.start = time.perf_counter()


def blobs(n, rng):
    at = np.linspace(-1, 1, SIZE, dtype="float32")
    centre, width = rng.uniform(-0.6, 0.6, (n, 2, 1)), rng.uniform(0.1, 0.4, (n, 1))
    across = np.exp(-(((at - centre[:, 0]) / width) ** 2))
    down = np.exp(-(((at - centre[:, 1]) / width) ** 2))
    return (down[:, :, None] * across[:, None, :])[..., None].astype("float32")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--fixed", action="store_true", help="show them once in an epoch")
    args = parser.parse_args()
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x, held_out = blobs(SAMPLES, rng), blobs(8, rng)
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 1)),
            layers.Conv2D(16, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2DTranspose(16, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2DTranspose(1, 3, strides=2, padding="same", activation="sigmoid"),
        ]
    )
    model.compile("adam", "mse")
    per_epoch = SAMPLES // BATCH
    epochs = max(2, args.steps // per_epoch)
    with tempfile.TemporaryDirectory() as folder:
        clock, shown = Clock(), Reconstructions(held_out, folder, per_epoch if args.fixed else 1)
        model.fit(x, x, batch_size=BATCH, epochs=epochs, verbose=2, callbacks=[clock, shown])
        seconds = time.perf_counter() - clock.start
    samples = (epochs - 1) * SAMPLES
    print(json.dumps({"samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
