"""What the hooks add to steps of JAX and of Keras' `fit`, in one process: they are taken away and put back between blocks of steps.

Processor time of the process, in pairs of blocks of a random order; the sampler goes on in both kinds of blocks. What is traced into a
compiled function cannot be taken away: for that, and for all that recording costs, see `overhead_compiled.py`.

slowstep run overhead_compiled_toggle.py --training half|tenth|adam|hand|keras --pairs N [--result FILE]
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import random
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from paired import paired_difference, paired_ratio

PACKAGES = ("jax", "optax", "keras", "tensorflow")
OWN = "slowstep"
# Of a block the first steps are not counted: they bring back into the caches what the block before did not need.
SETTLING = 0.1

Block = Callable[[int], None]
# us of processor time per step: of the process, and of the thread that trains.
Times = tuple[float, float]
Pair = dict[bool, Times]


class Hooks:
    """All functions of slowstep's in those of the frameworks, and what JAX calls after each of its calls."""

    def __init__(self) -> None:
        self._changed = [(owner, name, value, _original(value)) for owner, name, value in _attributes() if _is_ours(value)]
        # A hook may have set another function meanwhile: that is put back which is there when they are taken away.
        self._state = getattr(sys.modules.get("jax._src.api"), "_post_hook_state", None)
        self._after = None if self._state is None else self._state.get_global()
        if not self._changed:
            raise SystemExit("no hooks are installed: to be run by `slowstep run`")

    def switch(self, on: bool) -> None:
        for owner, name, ours, original in self._changed:
            setattr(owner, name, ours if on else original)
        if self._state is not None and self._after is not None:
            # Past what stands for the setting, which would leave ours.
            vars(self._state)["_state"].set_global(self._after if on else None)


def _attributes() -> list[tuple[Any, str, Any]]:
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] in PACKAGES and inspect.ismodule(module)]
    classes = {id(value): value for module in modules for value in list(vars(module).values()) if inspect.isclass(value)}
    return [(owner, name, value) for owner in (*modules, *classes.values()) for name, value in list(vars(owner).items())]


def _is_ours(value: Any) -> bool:
    return inspect.isfunction(value) and f"/{OWN}/" in value.__code__.co_filename and hasattr(value, "__wrapped__")


def _original(value: Any) -> Any:
    while _is_ours(value):
        value = value.__wrapped__
    return value


def jitted(width: int) -> Block:
    """A perceptron that a jitted function trains on one batch: its steps take about as long as two products of such matrices."""
    import jax
    from jax import numpy as jnp

    params, inputs, targets = _network((width, width, 1)), jnp.ones((64, width)), jnp.ones((64, 1))

    @jax.jit
    def step(params: Any, inputs: Any, targets: Any) -> tuple[Any, Any]:
        loss, gradient = jax.value_and_grad(_loss)(params, inputs, targets)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradient), loss

    def block(steps: int) -> None:
        nonlocal params
        for _ in range(steps):
            params, loss = step(params, inputs, targets)
        jax.block_until_ready((params, loss))

    return block


def adam() -> Block:
    """A perceptron whose gradients a jitted function gives, and that Adam of optax updates operation by operation."""
    import jax
    import optax
    from jax import numpy as jnp

    params, inputs, targets = _network((64, 64, 64, 1)), jnp.ones((64, 64)), jnp.ones((64, 1))
    optimizer = optax.adam(1e-3)
    state, gradient_of = optimizer.init(params), jax.jit(jax.grad(_loss))

    def block(steps: int) -> None:
        nonlocal params, state
        for _ in range(steps):
            changes, state = optimizer.update(gradient_of(params, inputs, targets), state, params)
            params = optax.apply_updates(params, changes)
        jax.block_until_ready(params)

    return block


def hand() -> Block:
    """The same perceptron, that the script updates by operations of its own."""
    import jax
    from jax import numpy as jnp

    params, inputs, targets = _network((64, 64, 64, 1)), jnp.ones((64, 64)), jnp.ones((64, 1))
    gradient_of = jax.jit(jax.grad(_loss))

    def block(steps: int) -> None:
        nonlocal params
        for _ in range(steps):
            params = jax.tree.map(lambda p, g: p - 0.01 * g, params, gradient_of(params, inputs, targets))
        jax.block_until_ready(params)

    return block


def _network(sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    import numpy as np
    from jax import numpy as jnp

    draw = np.random.default_rng(0)
    return [{"w": jnp.asarray(draw.normal(size=shape).astype("f") * 0.05), "b": jnp.zeros(shape[1])} for shape in pairwise(sizes)]


def _loss(params: Any, inputs: Any, targets: Any) -> Any:
    from jax import numpy as jnp

    for layer in params:
        inputs = jnp.tanh(inputs @ layer["w"] + layer["b"])
    return jnp.mean((inputs - targets) ** 2)


def keras(pairs: int, steps: int) -> list[Pair]:
    """`fit` of a perceptron on TensorFlow, over batches of tf.data; each block is an epoch: what a `fit` begins with is no step's."""
    os.environ |= {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    import keras as k
    import numpy as np
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    samples = np.random.default_rng(0).normal(size=(2048, 512)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((samples, samples[:, :1])).batch(64).cache().repeat().prefetch(2)
    model = k.Sequential([k.layers.Dense(512, activation="relu"), k.layers.Dense(512, activation="relu"), k.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    order = [on for pair in orders(pairs) for on in pair]
    read: list[tuple[int, int]] = []

    class Switch(k.callbacks.Callback):  # type: ignore[misc] # the class is of a module that is not typed
        hooks: Hooks | None = None

        def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
            read.append((time.process_time_ns(), time.thread_time_ns()))
            self.hooks = self.hooks or (Hooks() if epoch > 1 else None)
            if self.hooks is not None:
                self.hooks.switch(([True, True, *order, True])[epoch])
                read[-1] = time.process_time_ns(), time.thread_time_ns()

    model.fit(data, epochs=len(order) + 3, steps_per_epoch=steps, verbose=0, callbacks=[Switch()])
    times = [((b[0] - a[0]) / steps / 1000, (b[1] - a[1]) / steps / 1000) for a, b in pairwise(read[2:])]
    return [dict(zip(order[at : at + 2], times[at : at + 2], strict=True)) for at in range(0, len(order), 2)]


def orders(pairs: int) -> list[list[bool]]:
    """Whether the hooks are there in each block of each pair."""
    order = random.Random(0)
    return [order.sample((False, True), 2) for _ in range(pairs)]


# What makes a block, and how many steps it has.
TRAININGS: dict[str, tuple[Callable[[], Block], int]] = {
    "half": (lambda: jitted(400), 100),
    "tenth": (lambda: jitted(64), 400),
    "adam": (adam, 20),
    "hand": (hand, 60),
}
KERAS, KERAS_STEPS = "keras", 40


def measure(block: Block, pairs: int, steps: int) -> list[Pair]:
    """Blocks with the hooks and without."""
    # What is met for the first time is looked at, followed and described.
    block(steps)
    block(steps)
    hooks, found = Hooks(), []
    for pair in orders(pairs):
        found.append({})
        for on in pair:
            hooks.switch(on)
            found[-1][on] = timed(block, steps)
    hooks.switch(True)
    return found


def timed(block: Block, steps: int) -> Times:
    """Of one block."""
    block(int(SETTLING * steps))
    process_ns, thread_ns = time.process_time_ns(), time.thread_time_ns()
    block(steps)
    return (time.process_time_ns() - process_ns) / steps / 1000, (time.thread_time_ns() - thread_ns) / steps / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--training", choices=(*TRAININGS, KERAS), required=True)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--result", type=Path)
    given = parser.parse_args()
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    if given.training == KERAS:
        pairs = keras(given.pairs, KERAS_STEPS)
    else:
        make, steps = TRAININGS[given.training]
        pairs = measure(make(), given.pairs, steps)
    for number, of in enumerate(("process", "this thread")):
        without, with_hooks = ([pair[on][number] for pair in pairs] for on in (False, True))
        added, share = paired_difference(with_hooks, without), paired_ratio(with_hooks, without)
        print(
            f"{given.training:6} {of:11} step {sorted(without)[len(without) // 2]:8.1f} us, added {added.shown()} us, "
            f"{share.value:+.2%} [{share.low:+.2%}, {share.high:+.2%}]",
            flush=True,
        )
    if given.result is not None:
        given.result.write_text(json.dumps([(pair[False], pair[True]) for pair in pairs]))


if __name__ == "__main__":
    main()
