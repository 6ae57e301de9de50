"""Replicas of a strategy: one step for all of them, one batch, and one wait."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

tf: Any = pytest.importorskip("tensorflow", reason="needs tensorflow-cpu")

from recorded import make_folder, only  # noqa: E402
from slowstep.frameworks.tensorflow.inside import fetches, functions, replicas  # noqa: E402
from slowstep.frameworks.tensorflow.inside._pipelines import SEVERAL_REPLICAS  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402
from slowstep.record.timing.batches import samples_in  # noqa: E402
from slowstep.stages import LOADER_START  # noqa: E402

pytestmark = pytest.mark.slow

BATCHES, SAMPLES = 5, 8


def trained_under_record(folder: str, replicas_asked: int) -> list[tuple[int, ...]]:
    """Two passes over the data by a loop of the script's own, with so many logical processors: each replica has a thread of its own.
    The sizes of each batch's parts, by replica. For a process of its own: processors are set before TensorFlow starts.
    """
    device = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(device, [tf.config.LogicalDeviceConfiguration()] * replicas_asked)
    recorder = Recorder(folder, level=0)
    recorder.fault = _raised  # type: ignore[method-assign]
    undos = [each.HOOK.install(recorder) for each in (fetches, functions, replicas)]
    try:
        return trained(tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(replicas_asked)]))
    finally:
        for undo in reversed(undos):
            undo()
        recorder.stop("exit")


def _raised(error: BaseException) -> None:
    raise AssertionError(repr(error))


def trained(strategy: Any) -> list[tuple[int, ...]]:
    """Each update is one call of all replicas."""
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.range(BATCHES * SAMPLES).batch(SAMPLES))
    with strategy.scope():
        weight = tf.Variable(1.0)

    def step(numbers: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(weight * tf.cast(numbers, tf.float32))
        gradient = tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, weight))
        weight.assign(weight - 0.001 * gradient)
        return loss

    @tf.function
    def train(numbers: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(step, args=(numbers,)), axis=None)

    sizes: list[tuple[int, ...]] = []
    for _ in range(2):
        for batch in data:
            train(batch)
            sizes.append(tuple(len(part) for part in fetches.values_of_replicas(batch) or (batch,)))
    return sizes


@pytest.mark.parametrize("replicas_asked", [1, 2])
def test_steps_batches_and_starts_are_recorded_once(tmp_path, replicas_asked):
    folder = make_folder(tmp_path / "recording")
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as processes:
        sizes = processes.submit(trained_under_record, folder, replicas_asked).result()

    assert sizes == [(SAMPLES // replicas_asked,) * replicas_asked] * (2 * BATCHES)
    seen = only(folder)
    assert len(seen.of("UPDATE")) == 2 * BATCHES
    assert [wait.c for wait in seen.of("WAIT") if wait.c > 0] == [SAMPLES] * (2 * BATCHES)
    asked = {wait.a for wait in seen.of("WAIT")}
    assert len(asked) == 2
    assert len({note["loader"] for note in seen.noted("iterator") if note["id"] in asked}) == 1
    assert LOADER_START in [note["text"] for note in seen.noted("text")]
    # Nothing counts what stages do that make batches for several.
    assert [note["why"] for note in seen.noted("pipeline_unread")] == [SEVERAL_REPLICAS] * (2 if replicas_asked > 1 else 0)
    assert all(note["iterator"] in asked for note in seen.noted("pipeline") if replicas_asked > 1)


def test_samples_of_a_batch_are_those_of_all_replicas():
    kind = __import__("tensorflow.python.distribute.values", fromlist=["PerReplica"]).PerReplica
    batch = {"x": kind((tf.ones((3, 2)), tf.ones((2, 2)))), "y": kind((tf.ones(3), tf.ones(2)))}

    parts = fetches.values_of_replicas(batch)

    assert [samples_in(part) for part in parts] == [3, 2]
    assert fetches.values_of_replicas({"x": tf.ones((3, 2))}) is None
