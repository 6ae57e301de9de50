"""The trainings that `overhead_compiled.py` runs under each tool: `fit` of Keras on TensorFlow, and a loop of JAX. They time themselves.

python overhead_compiled_loop.py --training keras|jax --tool TOOL --blocks N --result FILE
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

# Steps between two readings of the clocks, so that reading them costs nothing.
BLOCK = {"keras": 200, "jax": 500}

Clocks = list[tuple[int, int]]


def read_clocks(into: Clocks) -> None:
    """(wall, processor time of this process) in ns."""
    into.append((time.perf_counter_ns(), time.process_time_ns()))


def keras(tool: str, blocks: int, folder: str) -> Clocks:
    """A perceptron over batches of tf.data, one epoch a block."""
    os.environ |= {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    import keras as k
    import numpy as np
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    k.utils.set_random_seed(0)
    read: Clocks = []

    class Clock(k.callbacks.Callback):  # type: ignore[misc] # the class is of a module that is not typed
        def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
            read_clocks(read)

    samples = np.random.default_rng(0).normal(size=(2048, 512)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((samples, samples[:, :1])).batch(64).cache().repeat().prefetch(2)
    model = k.Sequential([k.layers.Dense(512, activation="relu"), k.layers.Dense(512, activation="relu"), k.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    callbacks = [Clock()]
    if tool == "profile_batch":
        callbacks.append(k.callbacks.TensorBoard(folder, profile_batch=(2, blocks * BLOCK["keras"]), write_graph=False))
    if tool == "tf.profiler":
        tf.profiler.experimental.start(folder)
    model.fit(data, epochs=blocks, steps_per_epoch=BLOCK["keras"], callbacks=callbacks, verbose=0)
    read_clocks(read)
    if tool == "tf.profiler":
        tf.profiler.experimental.stop(save=False)
    return read


def jax(tool: str, blocks: int, folder: str) -> Clocks:
    """A perceptron of one's own over one batch; each block ends when its work is done."""
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    import jax as j
    import numpy as np
    from jax import numpy as jnp

    draw = np.random.default_rng(0)
    weights = [jnp.asarray(draw.normal(size=shape) * 0.05) for shape in ((256, 256), (256, 1))]
    inputs, targets = jnp.asarray(draw.normal(size=(64, 256))), jnp.ones((64, 1))

    def loss(weights: list[j.Array], inputs: j.Array, targets: j.Array) -> j.Array:
        return jnp.mean((j.nn.relu(inputs @ weights[0]) @ weights[1] - targets) ** 2)

    @j.jit
    def step(weights: list[j.Array], inputs: j.Array, targets: j.Array) -> list[j.Array]:
        return [each - 0.01 * gradient for each, gradient in zip(weights, j.grad(loss)(weights, inputs, targets), strict=True)]

    read: Clocks = []
    if tool == "jax.profiler":
        j.profiler.start_trace(folder)
    for _ in range(blocks):
        read_clocks(read)
        for _ in range(BLOCK["jax"]):
            weights = step(weights, inputs, targets)
        j.block_until_ready(weights)
    read_clocks(read)
    if tool == "jax.profiler":
        j.profiler.stop_trace()
    return read


TRAININGS: dict[str, Callable[[str, int, str], Clocks]] = {"keras": keras, "jax": jax}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--training", choices=TRAININGS, required=True)
    parser.add_argument("--tool", default="nothing")
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--result", type=Path, required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
        read = TRAININGS[given.training](given.tool, given.blocks, folder)
    block = BLOCK[given.training]
    given.result.write_text(json.dumps({"block": block, "wall_ns": [wall for wall, _ in read], "cpu_ns": [cpu for _, cpu in read]}))


if __name__ == "__main__":
    main()
