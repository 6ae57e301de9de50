"""What a call of a jitted function that trains takes however few samples it is given, per operation that it was traced to, and what single
operations take that multiply nothing, per element.

Prints a table of these, and one of small models on one sample, each with two optimizers; no options, a minute. `slowstep.calibration` holds
usual values and bounds of what both show. Of many calls of a model the fast ones count (the twentieth part): others may use the cores
meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from slowstep.frameworks.jax.inside._operations import size_of

WARMUP, CALLS = 10, 200
FAST = 0.05
# A model: its parameters, what it does with these and a sample, and the sample's shape.
Model = tuple[Any, Callable[[Any, Any], Any], tuple[int, ...]]


def drawn(*shape: int) -> Any:
    return jnp.asarray(np.random.default_rng(0).normal(size=shape) / shape[0] ** 0.5, jnp.float32)


def perceptron(depth: int, width: int) -> Model:
    def apply(layers: Any, x: Any) -> Any:
        for weight, bias in layers:
            x = jax.nn.relu(x @ weight + bias)
        return x.mean()

    return [(drawn(width, width), drawn(width)) for _ in range(depth)], apply, (1, width)


def convolutions(depth: int, channels: int) -> Model:
    def apply(layers: Any, x: Any) -> Any:
        for kernel, scale in layers:
            x = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = jax.nn.relu(scale * (x - x.mean((0, 1, 2))) / jnp.sqrt(x.var((0, 1, 2)) + 1e-5))
        return x.mean()

    return [(drawn(3, 3, channels, channels), drawn(channels)) for _ in range(depth)], apply, (1, 4, 4, channels)


def transformer(depth: int, width: int) -> Model:
    def normed(x: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)

    def apply(layers: Any, x: Any) -> Any:
        for query, key, value, widening, narrowing in layers:
            weights = jax.nn.softmax((x @ query) @ (x @ key).swapaxes(-1, -2) / width**0.5)
            x = normed(x + weights @ (x @ value))
            x = normed(x + jax.nn.gelu(x @ widening) @ narrowing)
        return x.mean()

    sizes = [(width, width)] * 3 + [(width, 2 * width), (2 * width, width)]
    return [tuple(drawn(*size) for size in sizes) for _ in range(depth)], apply, (1, 4, width)


MODELS: dict[str, Callable[[], Model]] = {
    "perceptron 3 of 16": lambda: perceptron(3, 16),
    "perceptron 12 of 16": lambda: perceptron(12, 16),
    "perceptron 2 of 1024": lambda: perceptron(2, 1024),
    "convolutions 6 of 8": lambda: convolutions(6, 8),
    "convolutions 6 of 64": lambda: convolutions(6, 64),
    "transformer 2 of 32": lambda: transformer(2, 32),
    "transformer 8 of 64": lambda: transformer(8, 64),
}
OPTIMIZERS = {"sgd": lambda: optax.sgd(1e-3), "adam": lambda: optax.adam(1e-3)}


def measure(model: Model, optimizer: Any) -> tuple[Any, float, float]:
    """What it was traced to, the seconds of a fast call, and its processor time."""
    parameters, apply, shape = model

    @jax.jit
    def step(parameters: Any, state: Any, x: Any) -> Any:
        loss, gradients = jax.value_and_grad(apply)(parameters, x)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, loss

    state, x, times = optimizer.init(parameters), drawn(*shape), []
    traced = step.trace(parameters, state, x).jaxpr
    for _ in range(WARMUP):
        parameters, state, _ = jax.block_until_ready(step(parameters, state, x))
    cpu = time.process_time()
    for _ in range(CALLS):
        began = time.perf_counter()
        parameters, state, _ = jax.block_until_ready(step(parameters, state, x))
        times.append(time.perf_counter() - began)
    return traced, sorted(times)[int(FAST * CALLS)], (time.process_time() - cpu) / CALLS


SORTED: dict[str, Callable[[Any], Any]] = {
    "sort": lambda x: jnp.sort(x, axis=-1),
    "argsort": lambda x: jnp.argsort(x, axis=-1),
    "top_k": lambda x: jax.lax.top_k(x, 16)[0],
    "cumsum": lambda x: jnp.cumsum(x, axis=-1),
    "max pooling": lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (2, 2), (2, 2), "VALID"),
    "gradient of pooling": lambda x: jax.grad(lambda y: jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (2, 2), (2, 2), "VALID").sum())(x),
}
SCATTERED: dict[str, Callable[[Any], Any]] = {
    "rows found": lambda x: x[jnp.argmax(jnp.ones((1, 1)), axis=-1)[0] + jnp.arange(x.shape[0]) // 2],
    "elements found": lambda x: jnp.take_along_axis(x, jnp.arange(x.shape[1])[None, ::-1] + jnp.zeros(x.shape, jnp.int32), axis=1),
    "elements added": lambda x: jnp.zeros(x.shape[1]).at[(jnp.abs(x) * 7).astype(jnp.int32) % x.shape[1]].add(x),
    "normal numbers": lambda x: x + jax.random.normal(jax.random.key(0), x.shape),
    "dropout": lambda x: jnp.where(jax.random.bernoulli(jax.random.key(0), 0.9, x.shape), x, 0),
}
OTHERS: dict[str, Callable[[Any], Any]] = {
    "tanh": jnp.tanh,
    "exp": jnp.exp,
    "power": lambda x: jnp.abs(x) ** 1.7,
    "erf": jax.scipy.special.erf,
    "softmax": lambda x: jax.nn.softmax(x, axis=-1),
    "transposed": lambda x: x.T + 0.0,
    "variance": lambda x: x.var(axis=0) + 0 * x,
}
SIZES = ((256, 4096), (65536, 16), (64, 64))


def element_ns(function: Callable[[Any], Any], size: tuple[int, int]) -> tuple[float, float]:
    """What an element takes, by a usual call and by the longest of the faster nine tenths."""
    call, x, times = jax.jit(function), drawn(*size), []
    for _ in range(WARMUP + 30):
        began = time.perf_counter()
        jax.block_until_ready(call(x))
        times.append(time.perf_counter() - began)
    usual, long = (sorted(times[WARMUP:])[at] for at in (15, 27))
    return usual * 1e9 / x.size, long * 1e9 / x.size


def print_single() -> None:
    print(f"{'operation':22} " + " ".join(f"{size!s:>22}" for size in SIZES) + "   ns an element")
    for functions in (SORTED, SCATTERED, OTHERS):
        for name, function in functions.items():
            found = (element_ns(function, size) for size in SIZES)
            print(f"{name:22} " + " ".join(f"{usual:14.2f} {long:7.2f}" for usual, long in found), flush=True)


def main() -> None:
    print_single()
    print(f"{'model':22} {'':6} {'most':>6} {'elements':>10} {'us':>8} {'CPU us':>8} {'us/most':>8} {'ns/element':>10}")
    for name, make in MODELS.items():
        for optimizer, made in OPTIMIZERS.items():
            traced, seconds, cpu = measure(make(), made())
            size = size_of(traced)
            most, elements = size.operations.most or 0, size.elements or 0
            print(
                f"{name:22} {optimizer:6} {most:6} {elements:10} {seconds * 1e6:8.0f} {cpu * 1e6:8.0f} {seconds * 1e6 / most:8.2f} "
                f"{seconds * 1e9 / elements:10.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
