"""Keras: a river's flow from weather, by a recurrent cell of one's own; compiled as it was when it was debugged."""

import argparse
import json
import os
import time

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from keras import layers, ops

BASINS, DAYS, DRIVERS, BATCH = 640, 12, 8, 32


class GatedCell(layers.Layer):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = self.state_size = units
        self.gates = layers.Dense(2 * units, activation="sigmoid")
        self.candidate = layers.Dense(units, activation="tanh")

    def build(self, shape):
        both = (shape[0], shape[-1] + self.units)
        self.gates.build(both)
        self.candidate.build(both)
        self.built = True

    def call(self, x, states):
        (h,) = states
        keep, reset = ops.split(self.gates(ops.concatenate([x, h], -1)), 2, axis=-1)
        new = self.candidate(ops.concatenate([x, reset * h], -1))
        h = keep * h + (1 - keep) * new
        return h, [h]


class Flow(keras.Model):
    def __init__(self):
        super().__init__()
        self.rnn = layers.RNN(GatedCell(48), return_sequences=True, unroll=True)
        self.out = layers.Dense(1)

    def call(self, x):
        return self.out(self.rnn(x))


class Clock(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            self.start = time.perf_counter()


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=120)
parser.add_argument("--fixed", action="store_true", help="without run_eagerly")
args = parser.parse_args()

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
x = rng.normal(size=(BASINS, DAYS, DRIVERS)).astype("float32")
y = np.cumsum(x[..., :1], axis=1) * 0.1
epochs = max(2, args.steps * BATCH // BASINS)
if args.fixed:
    epochs *= 5
model = Flow()
model.compile(keras.optimizers.Adam(1e-3), loss="mse", run_eagerly=not args.fixed)
clock = Clock()
model.fit(x, y, batch_size=BATCH, epochs=epochs, verbose=2, callbacks=[clock])
seconds = time.perf_counter() - clock.start
samples = (epochs - 1) * BASINS
print(json.dumps({"samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))
