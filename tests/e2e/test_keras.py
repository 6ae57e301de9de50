"""Unmodified Keras trainings, on each framework that it computes with, and loops of TensorFlow: what a step is, and who is blamed."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

import pytest

from launching import SLOWSTEP, Workplace
from slowstep.document.validity import faults

# Not imported: it would take the framework that it computes with by default.
pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_spec("keras") is None, reason="needs keras")]

# `INPUT` s are spent on each batch and `CALLBACK` s after each. The sums printed are those of all weights.
HEAD = """
import os, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["KERAS_BACKEND"] = BACKEND
import keras, numpy as np
keras.utils.set_random_seed(0)

def batches():
    rng = np.random.default_rng(0)
    while True:
        time.sleep(INPUT)
        yield rng.normal(size=(16, 32)).astype("f"), rng.normal(size=(16, 1)).astype("f")

class Draw(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(CALLBACK)

model = keras.Sequential([keras.layers.Dense(64, activation="relu"), keras.layers.Dropout(0.2), keras.layers.Dense(1)])
"""
FIT = """
model.compile("adam", "mse", steps_per_execution=UPDATES)
# Of a generator it depends on the time how much is read ahead at the end of an epoch.
held_out = np.ones((80, 32), "f"), np.ones((80, 1), "f")
saved = keras.callbacks.ModelCheckpoint("best.weights.h5", save_weights_only=True)
history = model.fit(
    batches(), steps_per_epoch=100, epochs=EPOCHS, verbose=0, callbacks=[Draw(), saved], validation_data=held_out
)
print(history.history, [float(np.abs(np.asarray(w)).sum()) for w in model.get_weights()])
"""
PREDICTS = """
class Show(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.model.predict(np.ones((8, 32), "f"), verbose=0)

model.compile("adam", "mse")
model.fit(np.ones((640, 32), "f"), np.ones((640, 1), "f"), batch_size=16, verbose=0, callbacks=[Show()])
print("trained")
"""
ON_BATCH = """
def draw():
    time.sleep(CALLBACK)

model.compile("adam", "mse")
for number, (x, y) in zip(range(STEPS), batches()):
    loss = model.train_on_batch(x, y)
    draw()
print(float(loss))
"""
TENSORFLOW_LOOP = """
import tensorflow as tf

def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss

def draw(loss):
    time.sleep(CALLBACK)

optimizer = keras.optimizers.SGD(0.01)
model.build((16, 32))
train_step = tf.function(train_step) if GRAPH else train_step
form = tf.TensorSpec((16, 32)), tf.TensorSpec((16, 1))
for number, (x, y) in enumerate(tf.data.Dataset.from_generator(batches, output_signature=form).prefetch(2)):
    loss = train_step(x, y)
    draw(loss)
    if number == STEPS:
        break
print(float(loss))
"""


def write(place: Workplace, script: str, backend: str, **values: float) -> None:
    pytest.importorskip(backend, reason=f"needs keras and {backend}")
    given = {"INPUT": 0.0, "CALLBACK": 0.0, "UPDATES": 1, "GRAPH": 1, "EPOCHS": 3, "STEPS": 200} | values
    head = f"BACKEND = {backend!r}\n" + "".join(f"{name} = {value}\n" for name, value in given.items())
    place.write("train.py", head + HEAD + script)


def recorded(place: Workplace, script: str, backend: str = "tensorflow", **values: float) -> dict[str, Any]:
    """The report of a run that prints what it prints without slowstep, and without sleeps."""
    write(place, script, backend, **values | {"INPUT": 0.0, "CALLBACK": 0.0})
    plain = place.run("train.py", slowstep=False)
    write(place, script, backend, **values)
    ran = place.run("train.py", options=("--json", str(place.runs.parent / "report.json")))
    assert (ran.code, ran.out) == (plain.code, plain.out), ran.err
    assert ran.out
    found: dict[str, Any] = json.loads((place.runs.parent / "report.json").read_text())
    assert found["run"]["framework"].startswith(("keras", "tensorflow"))
    return found


def shares(report: dict[str, Any]) -> dict[str, float]:
    return {row["stage"]: row["share"] or 0.0 for row in report["ledger"]}


def callback_ms(report: dict[str, Any]) -> float:
    """What the callback takes of each step, with its waits for a core: a sleep is never shorter, however busy the machine is."""
    output = [part for row in report["ledger"] if row["stage"] == "output" for part in row["parts"]]
    named = ("Draw.on_train_batch_end", "waiting for a core")
    return sum(part["ms_per_step"] for part in output if any(name in part["name"] for name in named))


def levers(place: Workplace) -> list[dict[str, Any]]:
    """What was said of levers, in the order in which it was."""
    notes = [json.loads(line) for file in sorted(place.runs.glob("*/*.jsonl")) for line in file.read_text().splitlines()]
    return [note for note in notes if note.get("kind") == "lever"]


def rules(report: dict[str, Any]) -> set[str]:
    return {finding["rule"] for finding in report["findings"]}


def test_input_that_a_compiled_call_waits_for_is_counted_in_it(work: Workplace) -> None:
    report = recorded(work, FIT, INPUT=0.05)

    assert report["run"]["step_boundary"] == "end of the call that updates"
    assert report["run"]["recorded_steps"] == 300
    (finding,) = [finding for finding in report["findings"] if finding["rule"] == "slow-pipeline"]
    assert "batches (train.py:" in finding["title"]
    generator = report["pipeline"]["stages"][report["pipeline"]["slowest"]]
    assert (generator["name"], generator["function"]) == ("Generator", "batches")
    # A sleep is never shorter.
    assert generator["ms"] > 49
    # A sleep of 50 ms for each batch of 16.
    assert report["run"]["batch_size"] == 16
    samples_per_s = report["throughput"]["samples_per_s"]
    assert samples_per_s < 16 / 0.05
    assert samples_per_s == pytest.approx(16 * report["throughput"]["steps_per_s"])
    # The whole of the run has the start in it.
    assert samples_per_s > 0.5 * 16 * 300 / report["run"]["duration_s"]
    assert "PyDataset" in finding["fixes"][0]["text"]
    assert shares(report)["preprocess"] > 0.5


@pytest.mark.parametrize("backend", ["torch", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("tensorflow", "jax"))])
def test_a_callback_is_named_and_blamed_for_its_time(work: Workplace, backend: str) -> None:
    report = recorded(work, FIT, backend, CALLBACK=0.05)

    (finding,) = [finding for finding in report["findings"] if finding["rule"] == "slow-callback"]
    assert "Draw.on_train_batch_end" in finding["title"]
    assert callback_ms(report) > 45


def test_what_a_prediction_reads_and_traces_is_a_part_of_it(work: Workplace) -> None:
    report = recorded(work, PREDICTS)

    kinds = {part["kind"]: part["share"] for row in report["ledger"] for part in row["parts"]}
    assert "compilation" not in kinds
    assert kinds.get("loader_start", 0.0) < 0.1
    assert shares(report)["output"] > 0.5
    assert report["findings"][0]["rule"] == "slow-callback"


@pytest.mark.nightly
def test_of_several_updates_in_a_call_it_is_not_known_how_long_they_wait(work: Workplace) -> None:
    report = recorded(work, FIT, INPUT=0.03, UPDATES=4)

    assert report["run"]["updates_per_step"] == 4
    assert (report["verdict"]["state"], report["verdict"]["rule"]) == ("undetermined", None)
    assert shares(report)["unattributed"] > 0.5


@pytest.mark.nightly
def test_input_that_the_calling_thread_makes_is_a_serial_loader_with_jax(work: Workplace) -> None:
    report = recorded(work, FIT, "jax", INPUT=0.05)

    (finding,) = [finding for finding in report["findings"] if finding["rule"] == "serial-loader"]
    assert finding["share"] > 0.5
    # A sleep is never shorter, and none of it is taken for computing.
    assert sum(row["ms_per_step"] for row in report["ledger"] if row["stage"] in ("read", "preprocess")) > 45
    assert finding["evidence"][0]["where"] == "data set GeneratorDataAdapter"


@pytest.mark.nightly
def test_input_that_is_there_at_once_is_not_blamed_with_jax(work: Workplace) -> None:
    report = recorded(work, FIT, "jax", CALLBACK=0.03)

    assert rules(report) & {"serial-loader", "slow-pipeline", "input-wait"} == set()


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("script", "backend", "lever"),
    [
        pytest.param(FIT, "torch", "callbacks-off=Draw", marks=pytest.mark.nightly),
        pytest.param(TENSORFLOW_LOOP, "tensorflow", "stub=__main__:draw", marks=pytest.mark.nightly),
        pytest.param(FIT, "tensorflow", "callbacks-off=Draw", marks=pytest.mark.nightly),
        pytest.param(FIT, "jax", "callbacks-off=Draw", marks=pytest.mark.nightly),
        pytest.param(ON_BATCH, "jax", "stub=__main__:draw", marks=pytest.mark.nightly),
    ],
    ids=["fit-torch", "loop-tensorflow", "fit-tensorflow", "fit-jax", "batches-jax"],
)
def test_what_a_callback_costs_is_proved(work: Workplace, script: str, backend: str, lever: str) -> None:
    write(work, script, backend, CALLBACK=0.1, EPOCHS=10_000, STEPS=1_000_000)
    target = work.runs.parent / "report.json"

    ran = work.run("train.py", act="prove", options=("--levers", lever, "--budget", "20s", "--json", str(target)), limit_s=350)

    report = json.loads(target.read_text())
    (row,) = [row for row in report["experiments"] if row["lever"] == lever]
    assert (row["verdict"], row["rule"]) == ("proved", "slow-callback"), ran.err
    assert row["gain"]["value"] > 1.5
    # What is to be typed next is no such experiment again.
    assert report["run"]["next_command"].startswith("slowstep run")


@pytest.mark.nightly
@pytest.mark.parametrize("backend", ["torch", "tensorflow"])
def test_callbacks_are_left_out_and_a_lever_that_keras_lacks_is_refused_with_why(work: Workplace, backend: str) -> None:
    write(work, FIT, backend)
    plain = work.run("train.py", slowstep=False)

    ran = work.run("train.py", options=("--with", "callbacks-off=Draw", "--with", "autocast=bf16"))

    assert (ran.code, ran.out) == (plain.code, plain.out), ran.err
    said = levers(work)
    assert max(note["effect"] for note in said if note["state"] == "effect") >= 100
    assert [(note["name"], "keras" in note["reason"]) for note in said if note["state"] == "not applicable"] == [("autocast=bf16", True)]


@pytest.mark.nightly
def test_calls_of_train_on_batch_are_steps(work: Workplace) -> None:
    report = recorded(work, ON_BATCH, CALLBACK=0.03)

    assert report["run"]["recorded_steps"] == 200
    assert "slow-callback" in rules(report)


@pytest.mark.parametrize("graph", [1, pytest.param(0, marks=pytest.mark.nightly)], ids=["traced", "eager"])
def test_loops_of_tensorflow_are_seen_by_what_computes_gradients(work: Workplace, graph: int) -> None:
    report = recorded(work, TENSORFLOW_LOOP, CALLBACK=0.05, GRAPH=graph)

    assert report["run"]["recorded_steps"] == pytest.approx(201, abs=2)
    (finding,) = [finding for finding in report["findings"] if finding["rule"] == "slow-callback"]
    assert "draw" in finding["title"]


def test_a_script_that_only_predicts_trains_nothing(work: Workplace) -> None:
    write(work, "model.predict(np.ones((64, 32)), verbose=0)\n", "tensorflow")
    ran = work.run("train.py")

    assert ran.code == 0
    assert "no training step was recorded" in ran.err
    assert "Keras" in ran.err


TF_DATA = """
import tensorflow as tf

def asleep(number):
    time.sleep(0.02)
    return np.float32(number)

def slept(number):
    return tf.ensure_shape(tf.numpy_function(asleep, [number], tf.float32), ())

model.compile("adam", "mse")
data = tf.data.Dataset.range(10 ** 9).map(slept).batch(4).map(lambda batch: (tf.tile(batch[:, None], [1, 32]), batch[:, None])).prefetch(2)
model.fit(data, shuffle=False, verbose=0)
"""


@pytest.mark.timeout(400)
def test_a_pipeline_is_measured_alone_and_its_slow_stage_is_named(work: Workplace) -> None:
    write(work, TF_DATA, "tensorflow")
    target = work.runs.parent / "bench.json"

    own = ("bench", "data", "--out", str(work.runs), "--budget", "20s", "--json", str(target))
    ended = work.finish(work.start(*SLOWSTEP, *own, "train.py", slowstep=False), 350)

    report = json.loads(target.read_text())
    assert (ended.code, faults(report)) == (0, []), ended.err
    bench = report["bench"]
    stages, dearest = bench["pipeline"]["stages"], bench["pipeline"]["dearest"]
    assert [stage["kind"] for stage in stages] == ["Range", "Map", "Batch", "Map"]
    assert (stages[dearest]["function"], stages[dearest]["in_python"]) == ("asleep", True)
    # A sleep is never shorter: no sample takes less than 20 ms, nor does the stage that sleeps, and all before it are faster.
    assert bench["loader"]["samples_per_s"]["value"] <= 50 < stages[dearest - 1]["samples_per_s"]["value"]
    assert stages[dearest]["added_ms_per_sample"]["value"] > 18
    assert bench["pipeline"]["runs_ahead"] is True
    assert (bench["loader"]["workers"], bench["loader"]["batch_size"]) == (None, 4)
