"""A small model whose step is shorter than what Keras does between two of them."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np

keras.utils.set_random_seed(0)
numbers = np.random.default_rng(0)
inputs, targets = numbers.random((6400, 16), dtype="float32"), numbers.random((6400, 1), dtype="float32")
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(inputs, targets, batch_size=16, epochs=4)
