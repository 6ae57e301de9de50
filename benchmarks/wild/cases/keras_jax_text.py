"""Keras on JAX: a small transformer reads sentences of tokens; logged to CSV, saved each epoch, with a schedule."""

import argparse
import json
import os
import tempfile
import time

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np
from keras import layers

VOCAB, LENGTH, DIM, BATCH, SAMPLES = 2000, 64, 128, 32, 1280


def block(x):
    y = layers.LayerNormalization()(x)
    y = layers.MultiHeadAttention(4, DIM // 4)(y, y)
    x = layers.Add()([x, y])
    y = layers.LayerNormalization()(x)
    y = layers.Dense(4 * DIM, activation="gelu")(y)
    return layers.Add()([x, layers.Dense(DIM)(y)])


def build():
    tokens = keras.Input((LENGTH,), dtype="int32")
    x = layers.Embedding(VOCAB, DIM)(tokens)
    for _ in range(3):
        x = block(x)
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    return keras.Model(tokens, layers.Dense(4)(x))


class Clock(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            self.start = time.perf_counter()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--fixed", action="store_true", help="nothing to fix")
    args = parser.parse_args()
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x = rng.integers(0, VOCAB, (SAMPLES, LENGTH)).astype("int32")
    y = (x < 500).sum(1) % 4
    model = build()
    epochs = max(2, args.steps * BATCH // SAMPLES)
    rate = keras.optimizers.schedules.CosineDecay(1e-3, args.steps)
    model.compile(keras.optimizers.AdamW(rate, clipnorm=1.0), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    with tempfile.TemporaryDirectory() as folder:
        clock = Clock()
        callbacks = [
            clock,
            keras.callbacks.CSVLogger(os.path.join(folder, "log.csv")),
            keras.callbacks.ModelCheckpoint(os.path.join(folder, "best.weights.h5"), monitor="loss", save_best_only=True, save_weights_only=True),
        ]
        model.fit(x, y, batch_size=BATCH, epochs=epochs, verbose=2, callbacks=callbacks)
        seconds = time.perf_counter() - clock.start
    samples = (epochs - 1) * SAMPLES
    print(json.dumps({"samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
