"""The gradients are compiled; the update, with momentum, is done beside them, array by array, or is compiled too."""

import sys

import jax
import jax.numpy as jnp
import numpy as np

WIDTH, DEPTH, BATCH, STEPS = 64, 8, 64, {"problem": 1500, "fixed": 10000}
rng = np.random.default_rng(0)


def init():
    return [{"w": jnp.asarray(rng.normal(size=(WIDTH, WIDTH)).astype("f") / 8), "b": jnp.zeros(WIDTH)} for _ in range(DEPTH)]


def loss_of(params, x):
    for layer in params:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return jnp.mean(x**2)


def update(params, speed, gradient):
    speed = jax.tree.map(lambda s, g: 0.9 * s + g, speed, gradient)
    return jax.tree.map(lambda p, s: p - 0.01 * s, params, speed), speed


def main():
    form = sys.argv[1]
    step = jax.jit(update) if form == "fixed" else update
    gradient_of = jax.jit(jax.value_and_grad(loss_of))
    params = init()
    speed = jax.tree.map(jnp.zeros_like, params)
    data = rng.normal(size=(4096, WIDTH)).astype("f")
    for number in range(STEPS[form]):
        at = number * BATCH % len(data)
        loss, gradient = gradient_of(params, data[at : at + BATCH])
        params, speed = step(params, speed, gradient)
    print(float(loss))


if __name__ == "__main__":
    main()
