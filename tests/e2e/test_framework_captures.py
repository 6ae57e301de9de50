"""`slowstep run --capture` of TensorFlow, Keras and JAX: a few steps by their own profilers, and nothing of the training's changed."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from launching import Ended, Workplace

pytestmark = pytest.mark.slow

TENSORFLOW = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np, tensorflow as tf
x = tf.constant(np.random.RandomState(0).rand(128, 512).astype("f"))
w = tf.Variable(np.random.RandomState(1).rand(512, 512).astype("f") * 0.01)

@tf.function
def train_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.nn.relu(x @ w) @ w - 1.0) ** 2)
    w.assign_sub(0.1 * tape.gradient(loss, w))
    return loss

for number in range(80):
OWN    loss = train_step(x)
print(float(loss), float(tf.reduce_sum(w)))
"""
KERAS = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras, numpy as np
keras.utils.set_random_seed(0)
x, y = np.random.rand(2560, 64).astype("f"), np.random.rand(2560, 1).astype("f")
model = keras.Sequential([keras.layers.Dense(256, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
history = model.fit(x, y, batch_size=32, epochs=1, verbose=0, shuffle=False)
print(history.history, [float(np.abs(np.asarray(w)).sum()) for w in model.get_weights()])
"""
JAX = """
import os
import jax, jax.numpy as jnp, numpy as np
x = np.random.RandomState(0).rand(128, 512).astype("f")
w = jnp.asarray(np.random.RandomState(1).rand(512, 512).astype("f") * 0.01)

@jax.jit
def train_step(w, x):
    loss, gradient = jax.value_and_grad(lambda w: jnp.mean((jax.nn.relu(x @ w) @ w - 1.0) ** 2))(w)
    return w - 0.1 * gradient, loss

for number in range(80):
OWN    w, loss = train_step(w, x)
    loss.block_until_ready()
print(float(loss), float(w.sum()))
"""
# As the script's own: it begins while ours is on, and has its trace.
TENSORFLOWS_OWN = """
    if number == 33:
        tf.profiler.experimental.start(f"own-{os.getpid()}")
    if number == 36:
        tf.profiler.experimental.stop()
        print(any(file.endswith(".xplane.pb") for *_, files in os.walk(f"own-{os.getpid()}") for file in files))
"""
JAXS_OWN = """
    if number == 33:
        jax.profiler.start_trace(f"own-{os.getpid()}")
    if number == 36:
        jax.profiler.stop_trace()
        print(any(file.endswith(".xplane.pb") for *_, files in os.walk(f"own-{os.getpid()}") for file in files))
"""


def needs(package: str):
    return pytest.mark.skipif(find_spec(package) is None, reason=f"needs {package}")


def captured(work: Workplace, script: str) -> tuple[Ended, dict]:
    """The script prints the same as without."""
    work.write("train.py", script)
    plain = work.run("train.py", slowstep=False)
    ran = work.run("train.py", options=("--capture", "--json", str(work.runs.parent / "report.json")))
    assert (ran.code, ran.out) == (plain.code, plain.out), ran.err
    return ran, json.loads((work.runs.parent / "report.json").read_text())


@pytest.mark.parametrize(
    ("script", "profiler"),
    [
        pytest.param(TENSORFLOW.replace("OWN", ""), "tf.profiler", id="tensorflow", marks=[needs("tensorflow"), pytest.mark.nightly]),
        pytest.param(KERAS, "tf.profiler", id="keras", marks=[needs("keras"), needs("tensorflow"), pytest.mark.nightly]),
        pytest.param(JAX.replace("OWN", ""), "jax.profiler", id="jax", marks=needs("jax")),
    ],
)
def test_the_captured_steps_are_a_trace_in_the_recording_and_tell_what_is_compute(work, script, profiler):
    _, report = captured(work, script)

    capture = report["run"]["capture"]
    assert capture["steps"] == "31-35"
    folder = Path(capture["file"]).parent
    assert [path.name for path in folder.glob("capture*")] == [Path(capture["file"]).name]
    assert any(f"captured by {profiler}" in note for note in report["run"]["notes"])
    # Those that were captured are no part of the account.
    assert report["run"]["steps"] <= report["run"]["recorded_steps"] - report["run"]["warmup_steps"] - 5
    read = work.run(capture["file"], act="analyze", options=("--json", str(work.runs.parent / "trace.json")))
    assert read.code == 0, read.err
    trace = json.loads((work.runs.parent / "trace.json").read_text())
    parts = {part["kind"]: part["share"] for part in next(row for row in trace["ledger"] if row["stage"] == "compute")["parts"]}
    # Of the first and the last one a part may be missing, where calls return before their work is done.
    assert trace["run"]["steps"] in (3, 4, 5)
    assert parts["operators"] > 0


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(TENSORFLOW.replace("OWN", TENSORFLOWS_OWN), id="tensorflow", marks=[needs("tensorflow"), pytest.mark.nightly]),
        pytest.param(JAX.replace("OWN", JAXS_OWN), id="jax", marks=needs("jax")),
    ],
)
def test_ours_makes_way_for_a_profile_of_the_scripts_own(work, script):
    ran, report = captured(work, script)

    assert "True" in ran.out
    assert "capture" not in report["run"]
    (lost,) = (row for row in report["health"] if row["name"] == "no-capture")
    assert "profiler of its own" in lost["remedy"]
