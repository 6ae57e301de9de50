"""TensorFlow, own loop: two towers that look up users and items in large tables, trained by Keras' Adam."""

import argparse
import json
import os
import time

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from keras import layers

USERS, ITEMS, DIM, BATCH = 200_000, 100_000, 32, 256


class RowsAdam:
    """Adam that touches the rows that were looked up and leaves all others be."""

    def __init__(self, table, rate=1e-3, beta_1=0.9, beta_2=0.999, epsilon=1e-7):
        self.table, self.rate, self.betas, self.epsilon = table, rate, (beta_1, beta_2), epsilon
        self.mean, self.square = tf.Variable(tf.zeros_like(table)), tf.Variable(tf.zeros_like(table))
        self.steps = tf.Variable(0.0)

    def apply(self, grad):
        rows, at = tf.unique(grad.indices)
        g = tf.math.unsorted_segment_sum(grad.values, at, tf.size(rows))
        self.steps.assign_add(1.0)
        b1, b2 = self.betas
        mean = b1 * tf.gather(self.mean, rows) + (1 - b1) * g
        square = b2 * tf.gather(self.square, rows) + (1 - b2) * g * g
        rate = self.rate * tf.sqrt(1 - b2**self.steps) / (1 - b1**self.steps)
        self.mean.scatter_update(tf.IndexedSlices(mean, rows))
        self.square.scatter_update(tf.IndexedSlices(square, rows))
        self.table.scatter_sub(tf.IndexedSlices(rate * mean / (tf.sqrt(square) + self.epsilon), rows))


class TwoTowers(keras.Model):
    def __init__(self):
        super().__init__()
        self.users, self.items = layers.Embedding(USERS, DIM), layers.Embedding(ITEMS, DIM)
        self.left = keras.Sequential([layers.Dense(64, activation="relu"), layers.Dense(32)])
        self.right = keras.Sequential([layers.Dense(64, activation="relu"), layers.Dense(32)])

    def call(self, pair):
        user, item = pair
        return tf.reduce_sum(self.left(self.users(user)) * self.right(self.items(item)), -1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--fixed", action="store_true", help="update the rows that were looked up")
    args = parser.parse_args()
    steps = args.steps * 8 if args.fixed else args.steps
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    model = TwoTowers()
    model((np.zeros(2, "int32"), np.zeros(2, "int32")))
    optimizer = keras.optimizers.Adam(1e-3)
    tables = [model.users.embeddings.value, model.items.embeddings.value]
    dense = [v for v in model.trainable_variables if v.value is not tables[0] and v.value is not tables[1]]
    optimizer.build(dense if args.fixed else model.trainable_variables)
    of_rows = [RowsAdam(table) for table in tables] if args.fixed else []

    @tf.function
    def train_step(user, item, liked):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=liked, logits=model((user, item))))
        if of_rows:
            grads = tape.gradient(loss, [*tables, *(v.value for v in dense)])
            for one, grad in zip(of_rows, grads):
                one.apply(grad)
            optimizer.apply(grads[2:], dense)
        else:
            grads = tape.gradient(loss, [v.value for v in model.trainable_variables])
            optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    users = rng.integers(0, USERS, 64 * BATCH).astype("int32")
    items = rng.integers(0, ITEMS, 64 * BATCH).astype("int32")
    liked = ((users + items) % 2).astype("float32")
    ds = tf.data.Dataset.from_tensor_slices((users, items, liked)).batch(BATCH).cache().repeat().prefetch(2)
    for step, batch in enumerate(ds.take(steps)):
        if step == 5:
            start = time.perf_counter()
        loss = train_step(*batch)
        if step % 50 == 0:
            print(f"step {step} loss {float(loss):.4f}", flush=True)
    seconds = time.perf_counter() - start
    samples = (steps - 5) * BATCH
    print(json.dumps({"steps": steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
