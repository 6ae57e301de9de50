"""Keras on JAX: a PyDataset that opens, decodes and scales the pictures of a batch whenever it is asked for one."""

import argparse
import json
import os
import tempfile
import time

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np
from keras import layers
from PIL import Image

COUNT, BATCH, SIZE = 480, 32, 48


def write_pictures(folder):
    rng = np.random.default_rng(0)
    paths = []
    for i in range(COUNT):
        coarse = Image.fromarray(rng.integers(0, 256, (24, 24, 3), dtype=np.uint8))
        path = os.path.join(folder, f"{i:04d}.jpg")
        coarse.resize((320, 320), Image.BICUBIC).save(path, quality=90)
        paths.append(path)
    return paths, rng.integers(0, 5, COUNT)


def load(path):
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB").resize((SIZE, SIZE), Image.LANCZOS), dtype=np.uint8)


class Pictures(keras.utils.PyDataset):
    def __init__(self, paths, labels, in_memory=False, **kwargs):
        super().__init__(**kwargs)
        self.paths, self.labels = paths, labels
        self.pictures = np.stack([load(path) for path in paths]) if in_memory else None

    def __len__(self):
        return len(self.paths) // BATCH

    def __getitem__(self, index):
        at = slice(index * BATCH, (index + 1) * BATCH)
        if self.pictures is not None:
            x = self.pictures[at]
        else:
            x = np.stack([load(path) for path in self.paths[at]])
        return x.astype("float32") / 255.0, self.labels[at]


class Clock(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            self.start = time.perf_counter()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--fixed", action="store_true", help="decode all of them once, they fit in memory")
    args = parser.parse_args()
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 3)),
            layers.Conv2D(16, 3, strides=2, activation="relu"),
            layers.Conv2D(32, 3, strides=2, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(5),
        ]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    with tempfile.TemporaryDirectory() as folder:
        dataset = Pictures(*write_pictures(folder), in_memory=args.fixed)
        epochs = max(2, args.steps // len(dataset))
        clock = Clock()
        model.fit(dataset, epochs=epochs, shuffle=False, verbose=2, callbacks=[clock])
        seconds = time.perf_counter() - clock.start
    samples = (epochs - 1) * len(dataset) * BATCH
    print(json.dumps({"samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
