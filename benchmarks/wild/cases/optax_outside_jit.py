"""Flax and optax: the loss and its gradient are compiled, the optimizer is called beside them."""

import argparse
import json
import time

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax


class Tower(nn.Module):
    depth: int = 5
    width: int = 64

    @nn.compact
    def __call__(self, x):
        x = nn.Dense(self.width)(x)
        for _ in range(self.depth):
            x = x + nn.Dense(self.width)(nn.gelu(nn.LayerNorm()(x)))
        return nn.Dense(8)(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--fixed", action="store_true", help="compile the whole step")
    args = parser.parse_args()
    steps = args.steps * 10 if args.fixed else args.steps
    batch = 64
    rng = np.random.default_rng(0)
    features = rng.normal(size=(8192, 32)).astype("float32")
    labels = features[:, :8].argmax(1)
    model = Tower()
    params = model.init(jax.random.PRNGKey(0), features[:2])
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    opt_state = tx.init(params)

    @jax.jit
    def loss_and_grads(params, x, y):
        def loss_fn(p):
            return optax.softmax_cross_entropy_with_integer_labels(model.apply(p, x), y).mean()

        return jax.value_and_grad(loss_fn)(params)

    def train_step(params, opt_state, x, y):
        loss, grads = loss_and_grads(params, x, y)
        updates, opt_state = tx.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        return params, opt_state, loss

    if args.fixed:
        train_step = jax.jit(train_step)
    for step in range(steps):
        if step == 10:
            jax.block_until_ready(params)
            start = time.perf_counter()
        at = step * batch % len(features)
        params, opt_state, loss = train_step(params, opt_state, jnp.asarray(features[at : at + batch]), jnp.asarray(labels[at : at + batch]))
        if step % 100 == 0:
            print(f"step {step} loss {float(loss):.4f}", flush=True)
    jax.block_until_ready(params)
    seconds = time.perf_counter() - start
    samples = (steps - 10) * batch
    print(json.dumps({"steps": steps, "samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}))


if __name__ == "__main__":
    main()
