"""Keras on records of images: decoded once, cached, shuffled, batched, prefetched; validated and saved each epoch."""

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
from keras import layers

SIZE, BATCH, TRAIN, HELD_OUT = 32, 64, 2560, 128


def write_records(path, n, seed):
    rng = np.random.default_rng(seed)
    with tf.io.TFRecordWriter(path) as writer:
        for _ in range(n):
            image = rng.integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8)
            feature = {
                "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[tf.io.encode_png(image).numpy()])),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(image[0, 0, 0]) % 10])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def decode(record):
    spec = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(record, spec)
    image = tf.io.decode_png(example["image"], channels=3)
    return tf.ensure_shape(image, (SIZE, SIZE, 3)), example["label"]


def read(path, training):
    ds = tf.data.TFRecordDataset(path).map(decode, num_parallel_calls=tf.data.AUTOTUNE).cache()
    if training:
        ds = ds.shuffle(TRAIN, seed=0)
    return ds.batch(BATCH, drop_remainder=training).prefetch(tf.data.AUTOTUNE)


def build():
    model = keras.Sequential([keras.Input((SIZE, SIZE, 3)), layers.Rescaling(1 / 255)])
    for width in (24, 48, 64):
        model.add(layers.Conv2D(width, 3, padding="same", use_bias=False))
        model.add(layers.BatchNormalization())
        model.add(layers.ReLU())
        model.add(layers.Conv2D(width, 3, padding="same", activation="relu"))
        model.add(layers.MaxPooling2D())
    model.add(layers.GlobalAveragePooling2D())
    model.add(layers.Dense(10))
    return model


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
    with tempfile.TemporaryDirectory() as folder:
        train, held_out = os.path.join(folder, "train"), os.path.join(folder, "held_out")
        write_records(train, TRAIN, 0)
        write_records(held_out, HELD_OUT, 1)
        model = build()
        model.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
        epochs = max(2, args.steps * BATCH // TRAIN)
        clock = Clock()
        callbacks = [
            clock,
            keras.callbacks.ModelCheckpoint(os.path.join(folder, "last.weights.h5"), save_weights_only=True),
            keras.callbacks.EarlyStopping(patience=100),
        ]
        model.fit(read(train, True), validation_data=read(held_out, False), epochs=epochs, verbose=2, callbacks=callbacks)
        seconds = time.perf_counter() - clock.start
    samples = (epochs - 1) * TRAIN
    print(json.dumps({"samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
