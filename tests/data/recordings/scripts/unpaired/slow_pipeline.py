"""A tf.data pipeline whose samples are made by a function in Python that waits, one call at a time."""

import os
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf


def load(number):
    time.sleep(0.004)
    return np.full((32,), number % 7, "float32")


def sample(number):
    return tf.ensure_shape(tf.numpy_function(load, [number], tf.float32), (32,)), tf.ones((1,))


@tf.function
def train_step(inputs, targets):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(inputs) - targets) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))


keras.utils.set_random_seed(0)
model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.001)
for inputs, targets in tf.data.Dataset.range(2400).shuffle(64).map(sample).batch(4).prefetch(2):
    train_step(inputs, targets)
