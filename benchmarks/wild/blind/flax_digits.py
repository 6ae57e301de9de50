"""Flax: pictures of digits, augmented in NumPy, a compiled step, the loss printed now and then, weights kept now and then."""

import argparse
import json
import os
import tempfile
import time

import flax.linen as nn
import jax
import numpy as np
import optax
from flax import serialization
from flax.training import train_state

BATCH = 64


class Digits(nn.Module):
    @nn.compact
    def __call__(self, x):
        for width in (16, 32):
            x = nn.relu(nn.Conv(width, (3, 3))(x))
            x = nn.relu(nn.Conv(width, (3, 3))(x))
            x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        x = nn.relu(nn.Dense(128)(x.mean((1, 2))))
        return nn.Dense(10)(x)


@jax.jit
def train_step(state, images, labels):
    def loss_fn(params):
        logits = state.apply_fn({"params": params}, images)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


def batches(images, labels, rng):
    while True:
        order = rng.permutation(len(images))
        for at in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[at : at + BATCH]
            shift = rng.integers(-2, 3, 2)
            yield np.roll(images[chosen], shift, (1, 2)), labels[chosen]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--fixed", action="store_true", help="nothing to fix")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    images = rng.random((2048, 28, 28, 1), dtype=np.float32)
    labels = rng.integers(0, 10, 2048)
    model = Digits()
    params = model.init(jax.random.PRNGKey(0), images[:1])["params"]
    tx = optax.adamw(optax.cosine_decay_schedule(1e-3, args.steps))
    state = train_state.TrainState.create(apply_fn=model.apply, params=params, tx=tx)
    with tempfile.TemporaryDirectory() as folder:
        for step, (x, y) in zip(range(args.steps), batches(images, labels, rng)):
            if step == 10:
                jax.block_until_ready(state)
                start = time.perf_counter()
            state, loss = train_step(state, x, y)
            if step % 20 == 0:
                print(f"step {step} loss {float(loss):.4f}", flush=True)
            if step % 50 == 49:
                with open(os.path.join(folder, "last.msgpack"), "wb") as f:
                    f.write(serialization.to_bytes(state.params))
        jax.block_until_ready(state)
        seconds = time.perf_counter() - start
    samples = (args.steps - 10) * BATCH
    print(json.dumps({"steps": args.steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
