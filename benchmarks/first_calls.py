"""What the first call of a compiled function takes beside tracing and compiling it, and beside what a later call takes.

Prints a row a model, of TensorFlow and of JAX: a training step that is compiled anew for each value of a Python number. No options, some
minutes. `slowstep.calibration` holds usual values and bounds of what it shows.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import jax
import jax.numpy as jnp
import numpy as np
import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import tracing_compilation

CALLS = 10
# Widths of layers, whether they are convolutions, and samples.
MODELS = {
    "perceptron 3 of 64, 32 samples": ([64] * 4, False, 32),
    "perceptron 12 of 64, 32 samples": ([64] * 13, False, 32),
    "perceptron 3 of 1024, 256 samples": ([1024] * 4, False, 256),
    "convolutions 3 of 8, 16 samples": ([8] * 4, True, 16),
    "convolutions 6 of 32, 32 samples": ([32] * 7, True, 32),
}


def shapes(widths: list[int], *, convolves: bool) -> list[tuple[int, ...]]:
    return [(3, 3, i, o) if convolves else (i, o) for i, o in pairwise(widths)]


def given(widths: list[int], samples: int, *, convolves: bool) -> Any:
    shape = (samples, 16, 16, widths[0]) if convolves else (samples, widths[0])
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def by_tensorflow(widths: list[int], convolves: bool, samples: int) -> tuple[Callable[[float], None], list[float]]:
    """A step, and a list to which what tracing takes is added."""
    weights = [tf.Variable(tf.random.normal(shape) * 0.1) for shape in shapes(widths, convolves=convolves)]
    x, traced, original = tf.constant(given(widths, samples, convolves=convolves)), [], tracing_compilation._create_concrete_function

    def trace(*args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        try:
            return original(*args, **kwargs)
        finally:
            traced.append(time.perf_counter() - began)

    tracing_compilation._create_concrete_function = trace

    @tf.function
    def step(rate: Any) -> Any:
        with tf.GradientTape() as tape:
            hidden = x
            for weight in weights:
                hidden = tf.nn.relu(tf.nn.conv2d(hidden, weight, 1, "SAME") if convolves else hidden @ weight)
            loss = tf.reduce_mean(hidden**2)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(rate * gradient)
        return loss

    return lambda rate: step(rate).numpy(), traced


def by_jax(widths: list[int], convolves: bool, samples: int) -> tuple[Callable[[float], None], list[float]]:
    weights = [jnp.asarray(np.random.default_rng(1).normal(size=shape) * 0.1, jnp.float32) for shape in shapes(widths, convolves=convolves)]
    x, told = jnp.asarray(given(widths, samples, convolves=convolves)), []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: (
            told.append(seconds) if event.endswith(("_trace_duration", "_module_duration", "compile_duration")) else None
        )
    )

    def loss_of(weights: Any) -> Any:
        hidden = x
        for weight in weights:
            if convolves:
                hidden = jax.lax.conv_general_dilated(hidden, weight, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            else:
                hidden = hidden @ weight
            hidden = jax.nn.relu(hidden)
        return (hidden**2).mean()

    def update(rate: float, weights: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(weights)
        return [weight - rate * gradient for weight, gradient in zip(weights, gradients, strict=True)], loss

    step = jax.jit(update, static_argnums=0)
    return lambda rate: jax.block_until_ready(step(rate, weights)), told


def main() -> None:
    print(f"{'':11} {'model':36} {'compiling ms':>12} {'rest of it ms':>13} {'later ms':>9} {'rest / compiling':>16}")
    for framework, make in (("TensorFlow", by_tensorflow), ("JAX", by_jax)):
        for name, (widths, convolves, samples) in MODELS.items():
            call, compiling = make(widths, convolves, samples)
            rows = []
            for number in range(CALLS):
                compiling.clear()
                began = time.perf_counter()
                call(0.01 + number * 1e-4)
                first, compiled = time.perf_counter() - began, sum(compiling)
                began = time.perf_counter()
                call(0.01 + number * 1e-4)
                later = time.perf_counter() - began
                rows.append((compiled, first - compiled - later, later))
            # The first of all does more.
            compiled, rest, later = (statistics.median(column) * 1e3 for column in zip(*rows[1:], strict=True))
            ratios = sorted(row[1] / row[0] for row in rows[1:])
            print(
                f"{framework:11} {name:36} {compiled:12.1f} {rest:13.1f} {later:9.2f} {statistics.median(ratios):8.2f} "
                f"{ratios[0]:.2f}-{ratios[-1]:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
