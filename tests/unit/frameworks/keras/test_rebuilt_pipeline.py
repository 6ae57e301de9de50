"""A second pipeline of tf.data with a change, switched in running calls of `fit`."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="needs keras and tensorflow-cpu")
keras: Any = pytest.importorskip("keras", reason="needs keras and tensorflow-cpu")
if keras.config.backend() != "tensorflow":
    pytest.skip("Keras computes with another framework here", allow_module_level=True)

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from fitted_pipelines import OFF, OFF_AGAIN, ON, ON_AGAIN, PREPARED, LeveredPipeline, as_row, trained  # noqa: E402
from slowstep.frameworks.keras.inside._given import MADE_BY_KERAS  # noqa: E402
from slowstep.frameworks.keras.inside.levers import parallel_calls, prefetch  # noqa: E402
from slowstep.frameworks.tensorflow.inside._input import graphs, kept  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")]


def test_a_second_pipeline_gives_while_it_is_on_and_the_own_one_goes_on_where_it_was(recorder):
    lever = LeveredPipeline(recorder, parallel_calls)

    seen, model = trained(tf.data.Dataset.range(100).map(as_row), lever.acts(), steps_per_epoch=40)

    first, again = OFF - ON, OFF_AGAIN - ON_AGAIN
    own = iter(range(100))
    takes_own = [step < ON or OFF <= step < ON_AGAIN or step >= OFF_AGAIN for step in range(40)]
    assert [got for got, is_own in zip(seen, takes_own, strict=True) if is_own] == [next(own) for is_own in takes_own if is_own]
    assert seen[ON:OFF] == list(range(first))
    # What it made ahead while it rested is discarded.
    later = seen[ON_AGAIN:OFF_AGAIN]
    assert later == list(range(later[0], later[0] + again))
    assert later[0] >= first
    assert model.traced == trained(tf.data.Dataset.range(100).map(as_row), {}, steps_per_epoch=40)[1].traced
    assert recorder.shared(kept.KeptBatches).batches == []


def test_its_calls_are_made_at_once(recorder):
    lever, running, most, lock = LeveredPipeline(recorder, parallel_calls), [0], [0], threading.Lock()

    def slowly(number: Any) -> Any:
        # By the time the second pipeline makes these, the own one is past them.
        counts = int(number < ON - 2)
        with lock:
            running[0] += counts
            most[0] = max(most[0], running[0])
        time.sleep(0.02)
        with lock:
            running[0] -= counts
        return np.float32([number])

    before: list[int] = []
    batches = tf.data.Dataset.range(400).map(lambda number: tf.ensure_shape(tf.numpy_function(slowly, [number], tf.float32), [1]))
    trained(batches, {**lever.acts(), ON - 1: lambda: before.append(most[0])}, steps_per_epoch=40)

    assert before == [1]
    assert most[0] > 1


@pytest.mark.parametrize(
    ("batches", "why"),
    [
        (lambda: tf.data.Dataset.range(40).map(as_row, num_parallel_calls=2), graphs.NO_MAP),
        (lambda: tf.data.Dataset.from_tensor_slices(np.ones((40, 1), "f")), graphs.NO_MAP),
        (lambda: np.ones((40, 1), "f"), MADE_BY_KERAS),
    ],
    ids=["parallel already", "no map", "arrays"],
)
def test_where_no_call_would_be_made_otherwise_it_is_not_applicable(recorder, batches, why):
    lever = LeveredPipeline(recorder, parallel_calls)

    trained(batches(), {1: lever.prepare}, **({"batch_size": 4} if why == MADE_BY_KERAS else {}))

    assert lever.refused == why


def test_a_pipeline_that_reads_the_training_s_variables_is_not_built_twice(recorder):
    lever, scale = LeveredPipeline(recorder, parallel_calls), tf.Variable(1.0)

    trained(tf.data.Dataset.range(8).map(lambda number: as_row(number) * scale), {1: lever.prepare})

    assert lever.refused == graphs.NOT_AGAIN.format("its functions use variables or tables")
    assert recorder.shared(kept.KeptBatches).refused is None


def cached_inside() -> Any:
    return tf.data.Dataset.range(8).flat_map(lambda _: tf.data.Dataset.range(4).map(as_row).cache())


def generated() -> Any:
    one = iter(np.ones((40, 1), "f"))
    return tf.data.Dataset.from_generator(lambda: one, output_signature=tf.TensorSpec((1,))).map(lambda row: row + 1)


@pytest.mark.parametrize(
    ("batches", "why"),
    [
        (lambda _: tf.data.Dataset.range(8).map(as_row).cache(), "CacheDataset"),
        (lambda folder: tf.data.Dataset.range(8).map(as_row).cache(str(folder / "cache")), "CacheDataset"),
        (lambda _: cached_inside(), "CacheDataset"),
        (lambda folder: tf.data.Dataset.range(8).map(as_row).snapshot(str(folder / "snapshot")), "SnapshotDataset"),
        (lambda _: generated(), "GeneratorDataset"),
    ],
    ids=["cache", "cache in a file", "cache inside", "snapshot", "one generator"],
)
def test_a_pipeline_that_only_one_may_read_is_not_built_twice(recorder, batches, why, tmp_path):
    lever = LeveredPipeline(recorder, parallel_calls)

    seen, _ = trained(batches(tmp_path), {PREPARED: lever.prepare}, steps_per_epoch=8)

    assert lever.refused == graphs.NOT_AGAIN.format(graphs.ONE_READER[why])
    assert len(seen) == 8


def test_a_pipeline_that_reads_a_table_is_not_built_twice(recorder):
    lever = LeveredPipeline(recorder, parallel_calls)
    pairs = tf.lookup.KeyValueTensorInitializer(tf.range(8, dtype=tf.int64), tf.range(8, dtype=tf.int64))
    table = tf.lookup.StaticHashTable(pairs, 0)

    trained(tf.data.Dataset.range(8).map(lambda number: as_row(table.lookup(number))), {PREPARED: lever.prepare})

    assert lever.refused == graphs.NOT_AGAIN.format("its functions use variables or tables")


def test_a_pipeline_that_holds_much_is_refused_before_it_is_written(recorder, monkeypatch):
    lever = LeveredPipeline(recorder, parallel_calls)
    monkeypatch.setattr(graphs, "_LARGEST_BYTES", 1000)
    monkeypatch.setattr(tf.raw_ops, "DatasetToGraphV2", lambda **_: pytest.fail("it was written"))

    trained(tf.data.Dataset.from_tensor_slices(np.ones((1000, 1), "f")).map(lambda row: row + 1).batch(100), {PREPARED: lever.prepare})

    assert lever.refused == graphs.NOT_AGAIN.format("it holds 0 MiB of data itself")


def test_batches_are_made_ahead_of_the_training(recorder):
    lever, made, ahead = LeveredPipeline(recorder, prefetch), [0], []

    def make(number: Any) -> Any:
        made[0] += 1
        return np.float32([number])

    def wait(trained_on: int) -> None:
        time.sleep(0.3)
        ahead.append(made[0] - trained_on)

    batches = tf.data.Dataset.range(400).map(lambda number: tf.ensure_shape(tf.numpy_function(make, [number], tf.float32), [1]))
    waits = {batch: partial(wait, batch) for batch in (ON - 1, ON + 1)}
    seen, _ = trained(batches, {**lever.acts(), **waits}, steps_per_epoch=40)

    assert seen[ON:OFF] == list(range(OFF - ON))
    assert ahead[1] - ahead[0] >= 3


def test_a_pipeline_that_makes_batches_ahead_is_not_told_to(recorder):
    lever = LeveredPipeline(recorder, prefetch)

    trained(tf.data.Dataset.range(40).map(as_row).prefetch(1).with_options(tf.data.Options()), {1: lever.prepare})

    assert lever.refused == graphs.AHEAD_ALREADY
