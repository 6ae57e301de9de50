"""An epoch of a part of a pipeline of tf.data that is stored."""

from __future__ import annotations

from typing import Any

import pytest

tf: Any = pytest.importorskip("tensorflow", reason="needs tensorflow-cpu")

from tensorflow.python.eager import context  # noqa: E402

from slowstep.frameworks.tensorflow.inside._input import stored  # noqa: E402
from slowstep.frameworks.tensorflow.inside._input.graphs import dataset_of, graph_of, result_of  # noqa: E402
from slowstep.frameworks.tensorflow.inside._input.resources import iterated, kinds_of  # noqa: E402
from slowstep.record.experiment.lever import NotApplicable  # noqa: E402

pytestmark = pytest.mark.slow

COUNT = 12


class Counting:
    """Doubles numbers in Python, of which it says that it gives the same each time, and counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, number: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(self._doubled, [number], tf.int64, stateful=False), [])

    def _doubled(self, number: Any) -> Any:
        self.calls += 1
        return 2 * number


def read(graph: Any, kinds: dict[str, Any]) -> list[int]:
    """All that a graph gives."""
    source, found = iterated(dataset_of(graph, result_of(graph).input[0]), kinds), []
    try:
        while True:
            found.append(int(tf.raw_ops.IteratorGetNext(iterator=source, **kinds)[0]))
    except tf.errors.OutOfRangeError:
        return found


NUMBERS = kinds_of([tf.int64], [tf.TensorShape([])])


def test_what_is_stored_is_given_again_and_not_made_again():
    counting = Counting()
    graph = graph_of(tf.data.Dataset.range(COUNT).map(counting).map(lambda number: number + 1))
    store = stored.Store(graph)

    assert store.fill()
    assert counting.calls == COUNT
    assert [read(graph, NUMBERS) for _ in range(2)] == [[2 * number + 1 for number in range(COUNT)]] * 2
    assert counting.calls == COUNT
    store.let_go()


def test_what_comes_behind_it_is_drawn_anew(monkeypatch):
    # Where a script sets a seed, a pipeline that is made anew draws the same again.
    monkeypatch.setattr(context.context(), "_seed", None)
    graph = graph_of(tf.data.Dataset.range(COUNT).map(lambda number: 2 * number).shuffle(COUNT))
    store = stored.Store(graph)
    store.fill()

    orders = [read(graph, NUMBERS) for _ in range(4)]

    assert {tuple(sorted(order)) for order in orders} == {tuple(range(0, 2 * COUNT, 2))}
    assert len({tuple(order) for order in orders}) > 1
    store.let_go()


def test_after_it_was_let_go_all_is_made_again():
    counting = Counting()
    graph = graph_of(tf.data.Dataset.range(COUNT).map(counting))
    store = stored.Store(graph)
    store.fill()
    store.let_go()
    store.let_go()

    read(graph, NUMBERS)

    assert counting.calls == 2 * COUNT


def test_it_is_filled_a_part_at_a_time_and_says_how_far_it_has_come(monkeypatch):
    clock = iter(range(10**6))
    monkeypatch.setattr(stored, "now", lambda: next(clock))
    monkeypatch.setattr(stored, "_SLICE_NS", 4)
    store = stored.Store(graph_of(tf.data.Dataset.range(COUNT).map(lambda number: 2 * number)))

    assert store.lacks() is None
    assert not store.fill()
    assert store.lacks() == stored.NO_EPOCH.format(stored=3, of=f" of {COUNT}")
    while not store.fill():
        pass
    assert store.lacks() is None


@pytest.mark.parametrize("count", [COUNT, None])
def test_what_takes_too_much_is_refused_before_it_does(monkeypatch, count):
    rows = tf.data.Dataset.range(100).map(lambda number: tf.ones([1000]) * tf.cast(number, tf.float32))
    rows = rows if count else rows.filter(lambda row: row[0] > -1)
    graph = graph_of(rows)
    # For 20 of them.
    monkeypatch.setattr(stored, "memory_free_bytes", lambda: 20 * 4000 / stored.MOST_MEMORY)
    store = stored.Store(graph)

    with pytest.raises(NotApplicable, match="MiB or more to store"):
        store.fill()
    # By how many there are, where that is known.
    assert store._elements == (stored._ENOUGH if count else 20 * 4000 // (4000 + stored._TENSOR_BYTES) + 1)


def test_texts_are_counted_by_their_length():
    texts = [tf.constant("12345"), tf.constant(["1", "12"])]

    assert [stored._size_of(text) for text in texts] == [5, 3]
    assert stored._size_of(tf.ones([2, 3])) == 24


def test_what_nobody_knows_the_size_of_is_refused():
    sparse = tf.data.Dataset.range(COUNT).map(lambda number: tf.sparse.from_dense([number]))

    with pytest.raises(NotApplicable) as refused:
        stored.Store(graph_of(sparse))

    assert str(refused.value) == stored.NO_SIZE


def test_what_fails_while_it_is_stored_is_named():
    def fails(number: Any) -> Any:
        with tf.control_dependencies([tf.debugging.assert_less(number, tf.constant(3, tf.int64))]):
            return 2 * number

    store = stored.Store(graph_of(tf.data.Dataset.range(COUNT).map(fails)))

    with pytest.raises(NotApplicable) as refused:
        store.fill()
    assert str(refused.value) == stored.FAILS.format("InvalidArgumentError")
