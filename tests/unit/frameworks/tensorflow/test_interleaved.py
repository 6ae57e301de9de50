"""Inputs that a pipeline of tf.data reads one after the other, read at once."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

tf: Any = pytest.importorskip("tensorflow", reason="needs tensorflow-cpu")

from slowstep.frameworks.tensorflow.inside._input import interleaved  # noqa: E402
from slowstep.frameworks.tensorflow.inside._input.graphs import dataset_of, graph_of, result_of  # noqa: E402
from slowstep.frameworks.tensorflow.inside._input.resources import iterated, kinds_of  # noqa: E402
from slowstep.record.experiment.lever import NotApplicable  # noqa: E402

pytestmark = pytest.mark.slow

INPUTS, EACH = 3, 4
NUMBERS = kinds_of([tf.int64], [tf.TensorShape([])])


def numbers(first: Any) -> Any:
    """Those of one input: 10, 11, 12, 13."""
    return tf.data.Dataset.range(10 * first, 10 * first + EACH)


def read(graph: Any) -> list[int]:
    """All that a graph gives."""
    source, found = iterated(dataset_of(graph, result_of(graph).input[0]), NUMBERS), []
    try:
        while True:
            found.append(int(tf.raw_ops.IteratorGetNext(iterator=source, **NUMBERS)[0]))
    except tf.errors.OutOfRangeError:
        return found


def changed(dataset: Any) -> tuple[list[int], list[int]]:
    """What is read of it, and of it with several inputs at once."""
    graph = graph_of(dataset)
    before = read(graph)
    interleaved.interleave_inputs(graph)
    return before, read(graph)


def test_of_a_flat_map_comes_what_comes_of_an_interleave_as_it_is_advised():
    advised = tf.data.Dataset.range(INPUTS).interleave(numbers, num_parallel_calls=tf.data.AUTOTUNE)
    own, other = changed(tf.data.Dataset.range(INPUTS).flat_map(numbers))

    assert own == sorted(own)
    assert sorted(other) == own
    assert other == [int(number) for number in advised]


def test_a_flat_map_keeps_what_its_function_has_of_outside():
    offset = tf.constant(100, tf.int64)
    own, other = changed(tf.data.Dataset.range(INPUTS).flat_map(lambda first: numbers(first).map(lambda number: number + offset)))

    assert sorted(other) == own
    assert own[0] == 100


def test_an_interleave_keeps_its_order():
    own, other = changed(tf.data.Dataset.range(INPUTS).interleave(numbers, cycle_length=2, block_length=3))

    assert other == own
    assert own != sorted(own)


def test_inputs_are_read_at_once():
    running, most, lock = [0], [0], threading.Lock()

    def slowly(number: Any) -> Any:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.05)
        with lock:
            running[0] -= 1
        return number

    def slow(first: Any) -> Any:
        return numbers(first).map(lambda number: tf.ensure_shape(tf.numpy_function(slowly, [number], tf.int64), []))

    graph = graph_of(tf.data.Dataset.range(INPUTS).flat_map(slow))
    read(graph)
    assert most == [1]
    interleaved.interleave_inputs(graph)
    read(graph)
    assert most[0] > 1


def test_records_of_several_files_are_all_read(tmp_path):
    files = [str(tmp_path / f"{number}.records") for number in range(INPUTS)]
    for number, file in enumerate(files):
        with tf.io.TFRecordWriter(file) as writer:
            for one in range(EACH):
                writer.write(str(10 * number + one).encode())

    own, other = changed(tf.data.TFRecordDataset(files).map(lambda text: tf.strings.to_number(text, tf.int64)))

    assert len(own) == INPUTS * EACH
    assert own == sorted(other)


@pytest.mark.parametrize(
    ("dataset", "why"),
    [
        (lambda: tf.data.Dataset.range(INPUTS), interleaved.NO_INPUTS),
        (lambda: tf.data.Dataset.range(INPUTS).interleave(numbers, num_parallel_calls=2), interleaved.NO_INPUTS),
        (lambda: tf.data.Dataset.range(1).flat_map(numbers), interleaved.OF_ONE),
        (lambda: tf.data.Dataset.range(8).window(2).flat_map(lambda window: window.batch(2)), interleaved.OF_PARTS),
    ],
    ids=["no stage", "parallel already", "one input", "windows"],
)
def test_it_has_no_meaning_where(dataset, why):
    with pytest.raises(NotApplicable) as refused:
        interleaved.interleave_inputs(graph_of(dataset()))

    assert str(refused.value) == why
