"""JAX, own network, optax: how long all gradients and weights are is logged with every step."""

import argparse
import csv
import json
import os
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

WIDTHS = [48, *[96] * 14, 6]
BATCH = 96


def init(key):
    keys = jax.random.split(key, len(WIDTHS) - 1)
    return [{"w": jax.random.normal(k, (i, o)) * (2.0 / i) ** 0.5, "b": jnp.zeros(o)} for k, i, o in zip(keys, WIDTHS, WIDTHS[1:])]


def forward(params, x):
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def make_step(tx):
    @jax.jit
    def step(params, state, x, y):
        def loss_fn(p):
            return optax.softmax_cross_entropy_with_integer_labels(forward(p, x), y).mean()

        loss, grads = jax.value_and_grad(loss_fn)(params)
        updates, state = tx.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss, grads

    return step


class Log:
    """A row a step, as wide as the network is deep."""

    def __init__(self, path):
        self.file = open(path, "w", newline="")
        self.writer = csv.writer(self.file)

    def norms(self, step, loss, params, grads):
        row = [step, float(loss)]
        for tree in (params, grads):
            for leaf in jax.tree_util.tree_leaves(tree):
                row.append(float(jnp.linalg.norm(leaf)))
        self.writer.writerow(row)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=900)
    parser.add_argument("--fixed", action="store_true", help="log every 100th step")
    args = parser.parse_args()
    steps = args.steps * 4 if args.fixed else args.steps
    every = 100 if args.fixed else 1
    rng = np.random.default_rng(0)
    x = rng.normal(size=(BATCH * 64, WIDTHS[0])).astype("float32")
    y = np.abs(x[:, :6]).argmax(1)
    params = init(jax.random.PRNGKey(0))
    tx = optax.adam(1e-3)
    state, step_fn = tx.init(params), make_step(tx)
    with tempfile.TemporaryDirectory() as folder:
        log = Log(os.path.join(folder, "norms.csv"))
        for step in range(steps):
            if step == 10:
                jax.block_until_ready(params)
                start = time.perf_counter()
            at = step % 64 * BATCH
            params, state, loss, grads = step_fn(params, state, x[at : at + BATCH], y[at : at + BATCH])
            if step % every == 0:
                log.norms(step, loss, params, grads)
        jax.block_until_ready(params)
        seconds = time.perf_counter() - start
        log.file.close()
    samples = (steps - 10) * BATCH
    print(json.dumps({"steps": steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
