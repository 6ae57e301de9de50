"""What a compiled function takes for operations that an eager step of TensorFlow dispatches one by one, and what dispatching takes.

Prints a table of models on batches of 1 to 512; no options, some ten minutes. `slowstep.calibration` holds usual values and bounds of what
it shows: of small models on one sample what an operation takes (`beyond a call`), of the others what is left of what their operations
compute (`left`). Processor time counts: others may use the cores meanwhile. Of many calls the fast quarter counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Any

import graph_operations as models
import keras
import numpy as np
import tensorflow as tf
from tensorflow.python import pywrap_tfe

from slowstep.calibration.compiling import COMPILED_CALL, COMPILED_OPERATION
from slowstep.frameworks.tensorflow.inside._dispatches import TimedOperation, of_step, summed

WARMUP, CALLS, TIMED, FAST = 4, 40, 9, 0.25
EXECUTES = {"TFE_Py_FastPathExecute": 1, "TFE_Py_Execute": 2, "TFE_Py_ExecuteCancelable": 2}
LARGER: dict[str, Callable[[], tuple[Any, tuple[int, ...]]]] = {
    "perceptron 4 of 64": lambda: models.perceptron(4, 64),
    "perceptron 3 of 512": lambda: models.perceptron(3, 512),
    "convolutions 3 of 32": lambda: (models.convolutions(3, 32)[0], (16, 16, 32)),
}
CASES = (
    *((name, 1, optimizer) for name in models.MODELS for optimizer in ("sgd", "adam")),
    *((name, batch, "adam") for name in ("convolutions 6 of 8", "transformer 2 of 32", "perceptron 2 of 1024") for batch in (8, 64)),
    *((name, batch, "sgd") for name in LARGER for batch in (32, 512)),
)


def timed(act: Callable[[], Any]) -> list[TimedOperation]:
    """The operations that a call dispatches."""
    found: list[TimedOperation] = []
    originals = {name: getattr(pywrap_tfe, name) for name in EXECUTES}

    def timing(original: Any, at: int) -> Any:
        def execute(*args: Any) -> Any:
            cpu_ns, began_ns = time.thread_time_ns(), time.monotonic_ns()
            try:
                return original(*args)
            finally:
                found.append((began_ns, time.monotonic_ns(), cpu_ns, time.thread_time_ns(), args[at]))

        return execute

    for name, at in EXECUTES.items():
        setattr(pywrap_tfe, name, timing(originals[name], at))
    try:
        act()
    finally:
        for name, original in originals.items():
            setattr(pywrap_tfe, name, original)
    return found


def fast(act: Callable[[], Any], calls: int) -> tuple[float, float]:
    """Processor time of a call in us: the process', and that of its other threads."""
    process, beside = [], []
    for _ in range(calls):
        thread, began = time.thread_time(), time.process_time()
        act()
        process.append((time.process_time() - began) * 1e6)
        beside.append(process[-1] - (time.thread_time() - thread) * 1e6)
    return sorted(process)[int(FAST * calls)], max(sorted(beside)[int(FAST * calls)], 0.0)


def made(name: str, batch: int, optimizer: str, *, eager: bool) -> Callable[[], Any]:
    """What trains one batch."""
    keras.utils.clear_session()
    model, shape = {**models.MODELS, **LARGER}[name]()
    model.compile(optimizer, "mse", run_eagerly=eager)
    given = np.random.rand(batch, *shape).astype("float32"), np.random.rand(batch, 1).astype("float32")
    data = tf.data.Dataset.from_tensors(given).cache().repeat()
    model.fit(data, steps_per_epoch=WARMUP, verbose=0)
    call, iterator = model.train_function, iter(data)
    return lambda: call(iterator)


def row(name: str, batch: int, optimizer: str) -> str:
    """One line of the table: times in us, of a step."""
    step = made(name, batch, optimizer, eager=True)
    eager, beside = fast(step, TIMED)
    steps = [timed(step) for _ in range(TIMED)]
    sums = [summed(now, before=of_step(before)) for before, now in pairwise(steps)]
    count, small, large = (median(each[key] for each in sums) for key in ("operations", "above_four_times_ns", "above_sixteen_times_ns"))
    compiled, _ = fast(made(name, batch, optimizer, eager=False), CALLS)
    computing = small / 1e3 + beside
    each = (eager - computing) / count
    beyond = (compiled / each - COMPILED_CALL.value) / count
    left = (compiled - each * (COMPILED_CALL.value + COMPILED_OPERATION.value * count)) / max(computing, 1.0)
    return (
        f"{name:22} {batch:5} {optimizer:5} {count:10.0f} {eager:9.0f} {each:6.1f} {computing:9.0f} {large / 1e3 + beside:8.0f} "
        f"{compiled:11.0f} {beyond:13.4f} {left:6.2f}"
    )


def main() -> None:
    print(
        f"{'model':22} {'batch':>5} {'':5} {'operations':>10} {'eager us':>9} {'each':>6} {'computing':>9} {'large':>8} "
        f"{'compiled us':>11} {'beyond a call':>13} {'left':>6}"
    )
    for case in CASES:
        print(row(*case), flush=True)


if __name__ == "__main__":
    main()
