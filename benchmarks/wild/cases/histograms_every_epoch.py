"""Keras: a wide network over short epochs, with TensorBoard told to keep histograms of all weights."""

import argparse
import json
import os
import tempfile
import time

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

STEPS_PER_EPOCH, BATCH = 16, 64


class Clock(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            self.start = time.perf_counter()


def build():
    inputs = keras.Input((512,))
    x = inputs
    for _ in range(3):
        x = keras.layers.Dense(1024, activation="relu")(x)
        x = keras.layers.LayerNormalization()(x)
    return keras.Model(inputs, keras.layers.Dense(20, activation="softmax")(x))


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=320)
parser.add_argument("--fixed", action="store_true", help="scalars only")
args = parser.parse_args()

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
x = rng.normal(size=(STEPS_PER_EPOCH * BATCH, 512)).astype("float32")
y = x[:, :20].argmax(1)
model = build()
model.compile(optimizer=keras.optimizers.SGD(0.05, momentum=0.9), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
epochs = max(2, args.steps // STEPS_PER_EPOCH)
with tempfile.TemporaryDirectory() as logs:
    clock = Clock()
    board = keras.callbacks.TensorBoard(log_dir=logs, histogram_freq=0 if args.fixed else 1, write_graph=False)
    model.fit(x, y, batch_size=BATCH, epochs=epochs, verbose=2, callbacks=[clock, board])
    seconds = time.perf_counter() - clock.start
samples = (epochs - 1) * STEPS_PER_EPOCH * BATCH
print(json.dumps({"samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))
