"""Keras on rows of pixels kept as text: each line is parsed by a Python function that tf.data calls."""

import argparse
import json
import os
import tempfile
import time

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

ROWS, PIXELS, BATCH = 3200, 784, 64


def write_rows(path):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (ROWS, PIXELS))
    labels = pixels[:, :40].sum(1) % 10
    with open(path, "w") as f:
        for label, row in zip(labels, pixels):
            f.write(f"{label}," + ",".join(map(str, row)) + "\n")


def parse_line(line):
    values = [float(v) for v in line.numpy().decode().split(",")]
    image = np.array([v / 255.0 for v in values[1:]], np.float32)
    return image, np.int64(values[0])


def parse_in_python(line):
    image, label = tf.py_function(parse_line, [line], (tf.float32, tf.int64))
    image.set_shape((PIXELS,))
    label.set_shape(())
    return image, label


def parse_in_graph(lines):
    values = tf.strings.to_number(tf.strings.split(lines, ",").to_tensor(), tf.float32)
    return tf.ensure_shape(values[:, 1:], (None, PIXELS)) / 255.0, tf.cast(values[:, 0], tf.int64)


class Clock(keras.callbacks.Callback):
    """Epochs after the first."""

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            self.start = time.perf_counter()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--fixed", action="store_true", help="parse whole batches by operations of TensorFlow")
    args = parser.parse_args()
    keras.utils.set_random_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "train.csv")
        write_rows(path)
        lines = tf.data.TextLineDataset(path).shuffle(ROWS, seed=0)
        if args.fixed:
            ds = lines.batch(BATCH).map(parse_in_graph, num_parallel_calls=tf.data.AUTOTUNE)
        else:
            ds = lines.map(parse_in_python, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH)
        ds = ds.prefetch(tf.data.AUTOTUNE)
        model = keras.Sequential(
            [
                keras.Input((PIXELS,)),
                keras.layers.Dense(512, activation="relu"),
                keras.layers.Dense(256, activation="relu"),
                keras.layers.Dense(10),
            ]
        )
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
        epochs = max(2, args.steps * BATCH // ROWS)
        clock = Clock()
        model.fit(ds, epochs=epochs, verbose=2, callbacks=[clock])
        seconds = time.perf_counter() - clock.start
    samples = (epochs - 1) * ROWS
    print(json.dumps({"samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
