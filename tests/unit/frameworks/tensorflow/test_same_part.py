"""Which part of a pipeline of tf.data gives the same in each epoch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

tf: Any = pytest.importorskip("tensorflow", reason="needs tensorflow-cpu")

from slowstep.frameworks.tensorflow.inside._input import same_part as same  # noqa: E402
from slowstep.frameworks.tensorflow.inside._input.graphs import graph_of  # noqa: E402
from slowstep.record.experiment.lever import NotApplicable  # noqa: E402

pytestmark = pytest.mark.slow


def numbers() -> Any:
    return tf.data.Dataset.range(12)


def doubled(number: Any) -> Any:
    return tf.cast(number, tf.float32) * 2


def made() -> Any:
    return numbers().map(doubled)


def drawn(number: Any) -> Any:
    return tf.random.uniform([]) + doubled(number)


def drawn_by_number(number: Any) -> Any:
    return tf.random.stateless_uniform([], seed=tf.stack([number, number])) + doubled(number)


def chosen(number: Any) -> Any:
    return tf.cond(number > 3, lambda: doubled(number), lambda: 0.0)


def checked(number: Any) -> Any:
    with tf.control_dependencies([tf.debugging.assert_less(number, tf.constant(99, tf.int64))]):
        return doubled(number)


def by_numpy(*, stateful: bool) -> Callable[[Any], Any]:
    return lambda number: tf.ensure_shape(tf.numpy_function(lambda one: one + 1, [number], tf.int64, stateful=stateful), [])


def in_any_order(dataset: Any) -> Any:
    options = tf.data.Options()
    options.deterministic = False
    return dataset.with_options(options)


def files(folder: Path) -> list[str]:
    found = [str(folder / f"{number}.records") for number in range(2)]
    for file in found:
        with tf.io.TFRecordWriter(file) as writer:
            writer.write(b"text")
    return found


@pytest.mark.parametrize(
    ("dataset", "kind"),
    [
        (lambda: made().batch(4), "Batch"),
        (lambda: made().batch(4).prefetch(2).with_options(tf.data.Options()), "Batch"),
        (lambda: made().shuffle(8).batch(4), "Map"),
        (lambda: made().repeat().batch(4), "Map"),
        (lambda: made().repeat(2).batch(4), "Batch"),
        (lambda: made().map(drawn).batch(4), "Map"),
        (lambda: numbers().map(doubled, num_parallel_calls=2).map(drawn), "ParallelMap"),
        (lambda: numbers().map(drawn_by_number).shuffle(4), "Map"),
        (lambda: numbers().map(chosen).shuffle(4), "Map"),
        (lambda: numbers().map(checked).shuffle(4), "Map"),
        (lambda: numbers().map(by_numpy(stateful=False)).shuffle(4), "Map"),
        (lambda: tf.data.Dataset.zip((made(), numbers())).shuffle(4), "Zip"),
        (lambda: numbers().flat_map(lambda end: tf.data.Dataset.range(end).map(doubled)).shuffle(4), "FlatMap"),
    ],
)
def test_it_is_the_last_stage_before_what_may_be_something_else(dataset, kind):
    assert same.kind_in(same.same_part(graph_of(dataset()))) == kind


def test_records_of_files_are_the_same(tmp_path):
    read = tf.data.TFRecordDataset(files(tmp_path))

    assert same.kind_in(same.same_part(graph_of(read.shuffle(4)))) == "FlatMap"
    assert same.kind_in(same.same_part(graph_of(read.map(tf.strings.length).shuffle(4)))) == "Map"
    several = tf.data.TFRecordDataset(files(tmp_path), num_parallel_reads=2)
    assert same.kind_in(same.same_part(graph_of(several.shuffle(4)))) == "LegacyParallelInterleave"


@pytest.mark.parametrize(
    ("dataset", "why"),
    [
        (lambda: numbers().shuffle(8).map(doubled), same.OTHER_ORDER.format(stage="shuffle")),
        (lambda: numbers().repeat().map(doubled), same.ENDLESS),
        (lambda: numbers().map(drawn), same.WITH_STATE.format(stage="map", operation="RandomUniform")),
        (lambda: numbers().map(by_numpy(stateful=True)), same.IN_PYTHON.format(stage="map")),
        (
            lambda: numbers().map(lambda number: tf.ensure_shape(tf.py_function(lambda one: one, [number], tf.int64), [])),
            same.IN_PYTHON.format(stage="map"),
        ),
        (lambda: numbers().map(doubled, num_parallel_calls=2, deterministic=False), same.ANY_ORDER.format(stage="map")),
        (lambda: in_any_order(numbers().map(doubled, num_parallel_calls=2)), same.ANY_ORDER.format(stage="map")),
        (lambda: tf.data.Dataset.random().take(8).map(doubled), same.UNKNOWN.format(stage="random")),
        (
            lambda: numbers().flat_map(lambda end: tf.data.Dataset.range(end).shuffle(4)),
            same.WITH_STATE.format(stage="flat_map", operation="ShuffleDatasetV3"),
        ),
    ],
)
def test_where_nothing_is_surely_the_same_the_first_stage_that_is_not_is_named(dataset, why):
    with pytest.raises(NotApplicable) as refused:
        same.same_part(graph_of(dataset()))

    assert str(refused.value) == same.NOTHING_SAME.format(why=why)


def test_what_lies_in_memory_is_not_stored_again():
    with pytest.raises(NotApplicable) as refused:
        same.same_part(graph_of(tf.data.Dataset.from_tensor_slices(tf.ones([8, 2])).batch(4).prefetch(1)))

    assert str(refused.value) == same.NOTHING_MADE
