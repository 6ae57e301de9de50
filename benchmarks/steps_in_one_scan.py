"""What one `jax.lax.scan` over 16 steps spares of each of them, beside 16 calls of a jitted step: with JAX, by whole steps.

Prints a line for each of four perceptrons; no options, half a minute. `slowstep.calibration` holds a usual value and bounds of what it
shows of the small ones. The two take turns, so that others on the machine meet both alike, and the fast ones count (the fifth part).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

TURNS, TOGETHER = 30, 16
FAST = 0.2
# Widths of the layers, and the samples of a batch.
MODELS = (((8, 8, 8), 16), ((8,) * 11, 16), ((64, 256, 256, 64), 32), ((256, 512, 512, 256), 128))


def parameters(widths: tuple[int, ...]) -> list[tuple[Any, Any]]:
    """Weights and biases."""
    keys = jax.random.split(jax.random.key(0), len(widths))
    return [(jax.random.normal(key, (a, b)) * 0.1, jnp.zeros(b)) for key, a, b in zip(keys, widths, widths[1:], strict=False)]


def step(trained: Any, batch: Any) -> tuple[Any, Any]:
    """Plain descent."""

    def loss(trained: Any) -> Any:
        found = batch[0]
        for weight, bias in trained:
            found = jnp.tanh(found @ weight + bias)
        return jnp.mean((found - batch[1]) ** 2)

    value, gradients = jax.value_and_grad(loss)(trained)
    return jax.tree.map(lambda one, other: one - 0.01 * other, trained, gradients), value


def fast_us(steps: list[Callable[[], Any]]) -> list[float]:
    """Of a step, each way."""
    taken: list[list[float]] = [[] for _ in steps]
    for _ in range(TURNS):
        for made, times in zip(steps, taken, strict=True):
            began = time.perf_counter()
            jax.block_until_ready(made())
            times.append((time.perf_counter() - began) / TOGETHER * 1e6)
    return [sorted(times)[int(FAST * TURNS)] for times in taken]


def main() -> None:
    alone, together = jax.jit(step), jax.jit(lambda trained, batches: jax.lax.scan(step, trained, batches))
    for widths, samples in MODELS:
        trained = parameters(widths)
        batch = jnp.ones((samples, widths[0])), jnp.ones((samples, widths[-1]))
        batches = jax.tree.map(lambda one: jnp.stack([one] * TOGETHER), batch)

        def in_turn(trained: Any = trained, batch: Any = batch) -> Any:
            for _ in range(TOGETHER):
                trained, loss = alone(trained, batch)
            return loss

        def in_one(trained: Any = trained, batches: Any = batches) -> Any:
            return together(trained, batches)

        jax.block_until_ready((in_turn(), in_one()))
        one, other = fast_us([in_turn, in_one])
        print(
            f"{len(widths) - 1} layers of {max(widths)}, {samples} samples: {one:.0f} us, in a scan {other:.0f}, spared {one - other:.0f}"
        )


if __name__ == "__main__":
    main()
