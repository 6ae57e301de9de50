"""Replicas of a strategy: one step for all of them, one batch, and one wait."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

tf: Any = pytest.importorskip("tensorflow", reason="needs tensorflow-cpu")

from recorded import make_folder, only  # noqa: E402
from slowstep.frameworks.tensorflow.inside import fetches, functions, replicas  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402
from slowstep.record.timing.batches import samples_in  # noqa: E402
from slowstep.stages import LOADER_START  # noqa: E402

pytestmark = pytest.mark.slow

BATCHES, SAMPLES = 5, 8


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    recorder.fault = lambda error: pytest.fail(repr(error))  # type: ignore[method-assign]
    undos = [each.HOOK.install(recorder) for each in (fetches, functions, replicas)]
    yield recorder
    for undo in reversed(undos):
        undo()
    recorder.stop("exit")


def trained() -> None:
    """Two passes over the data by a loop of the script's own, with a strategy of one processor: its replica has a thread of its own."""
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.range(BATCHES * SAMPLES).batch(SAMPLES))
    with strategy.scope():
        weight = tf.Variable(1.0)

    def step(numbers: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(weight * tf.cast(numbers, tf.float32))
        weight.assign_sub(0.001 * tape.gradient(loss, weight))
        return loss

    @tf.function
    def train(numbers: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(step, args=(numbers,)), axis=None)

    for _ in range(2):
        for batch in data:
            train(batch)


def test_steps_batches_and_starts_are_recorded_once(recorder):
    trained()

    recorder.stop("exit")
    seen = only(recorder.folder)
    assert len(seen.of("UPDATE")) == 2 * BATCHES
    assert [wait.c for wait in seen.of("WAIT") if wait.c > 0] == [SAMPLES] * (2 * BATCHES)
    asked = {wait.a for wait in seen.of("WAIT")}
    assert len(asked) == 2
    assert len({note["loader"] for note in seen.noted("iterator") if note["id"] in asked}) == 1
    assert LOADER_START in [note["text"] for note in seen.noted("text")]


def test_samples_of_a_batch_are_those_of_all_replicas():
    kind = __import__("tensorflow.python.distribute.values", fromlist=["PerReplica"]).PerReplica
    batch = {"x": kind((tf.ones((3, 2)), tf.ones((2, 2)))), "y": kind((tf.ones(3), tf.ones(2)))}

    parts = fetches.values_of_replicas(batch)

    assert [samples_in(part) for part in parts] == [3, 2]
    assert fetches.values_of_replicas({"x": tf.ones((3, 2))}) is None
