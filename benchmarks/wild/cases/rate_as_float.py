"""TensorFlow, own loop: the learning rate falls with each step and is handed to the compiled step."""

import argparse
import json
import math
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf


class Net(tf.Module):
    def __init__(self, widths):
        super().__init__()
        init = tf.random.Generator.from_seed(0)
        self.weights = [tf.Variable(init.normal((i, o)) * math.sqrt(2.0 / i)) for i, o in zip(widths, widths[1:])]
        self.biases = [tf.Variable(tf.zeros((o,))) for o in widths[1:]]

    def __call__(self, x):
        for w, b in zip(self.weights[:-1], self.biases[:-1]):
            x = tf.nn.relu(x @ w + b)
        return x @ self.weights[-1] + self.biases[-1]


class Training:
    def __init__(self, net):
        self.net = net
        self.speed = [tf.Variable(tf.zeros_like(v)) for v in net.trainable_variables]

    @tf.function
    def train_step(self, x, y, rate):
        with tf.GradientTape() as tape:
            logits = self.net(x)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        variables = self.net.trainable_variables
        for v, m, g in zip(variables, self.speed, tape.gradient(loss, variables)):
            m.assign(0.9 * m + g)
            v.assign_sub(rate * m)
        return loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--fixed", action="store_true", help="hand it over as a tensor")
    args = parser.parse_args()
    steps = args.steps * 30 if args.fixed else args.steps
    batch = 64
    rng = np.random.default_rng(0)
    x = tf.constant(rng.normal(size=(4096, 64)).astype("float32"))
    y = tf.constant(rng.integers(0, 10, 4096))
    ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(4096, seed=0).batch(batch, drop_remainder=True).repeat().prefetch(2)
    training = Training(Net([64, 128, 128, 128, 10]))
    for step, (images, labels) in enumerate(ds.take(steps)):
        if step == 5:
            start = time.perf_counter()
        rate = 0.01 * 0.5 * (1 + math.cos(math.pi * step / steps))
        if args.fixed:
            rate = tf.constant(rate, tf.float32)
        loss = training.train_step(images, labels, rate)
        if step % 50 == 0:
            print(f"step {step} loss {float(loss):.4f}", flush=True)
    seconds = time.perf_counter() - start
    samples = (steps - 5) * batch
    print(json.dumps({"steps": steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
