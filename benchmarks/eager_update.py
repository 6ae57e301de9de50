"""What is left of a JAX update that is dispatched operation by operation once it is jitted, by how large its arrays are.

Prints a table of optimizers and arrays; no options, two minutes. `slowstep.calibration` holds usual values and bounds of what it shows.
Each update is waited for. Of many the fast ones count (the tenth part): others may use the cores meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

SECONDS, WARMUP, FAST = 1.5, 5, 0.1

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: optax.sgd(1e-3),
    "momentum": lambda: optax.sgd(1e-3, momentum=0.9),
    "adam": lambda: optax.adam(1e-3),
    "clipped adamw": lambda: optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3)),
}
# How many arrays, and of how many elements each.
ARRAYS = ((4, 64), (16, 64), (16, 4096), (64, 4096), (16, 65_536), (8, 1_048_576))


def seconds_of(update: Callable[..., Any], given: tuple[Any, ...]) -> float:
    """Of one update, what the fast ones take."""
    times: list[float] = []
    for _ in range(WARMUP):
        jax.block_until_ready(update(*given))
    until = time.perf_counter() + SECONDS
    while time.perf_counter() < until or len(times) < WARMUP:
        began = time.perf_counter()
        jax.block_until_ready(update(*given))
        times.append(time.perf_counter() - began)
    return sorted(times)[int(FAST * len(times))]


def measure(make: Callable[[], Any], count: int, size: int) -> tuple[float, float]:
    """Seconds of an update that is dispatched operation by operation, and of a jitted one."""
    rng, optimizer = np.random.default_rng(0), make()
    params, gradient = ([jnp.asarray(rng.normal(size=size).astype("float32")) for _ in range(count)] for _ in range(2))
    state = optimizer.init(params)

    def update(gradient: Any, state: Any, params: Any) -> Any:
        changes, after = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, changes), after

    given = gradient, state, params
    return seconds_of(update, given), seconds_of(jax.jit(update), given)


def main() -> None:
    print(f"{'optimizer':14} {'arrays':>6} {'elements each':>13} {'one by one us':>13} {'jitted us':>10} {'left':>7} {'ns/element':>10}")
    for name, make in OPTIMIZERS.items():
        for count, size in ARRAYS:
            eager, jitted = measure(make, count, size)
            print(
                f"{name:14} {count:6} {size:13,} {eager * 1e6:13.0f} {jitted * 1e6:10.0f} {jitted / eager:7.3f} "
                f"{jitted * 1e9 / (count * size):10.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
