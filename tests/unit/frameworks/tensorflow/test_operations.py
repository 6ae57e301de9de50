"""How many operations a call of a traced function runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

tf: Any = pytest.importorskip("tensorflow", reason="needs tensorflow-cpu")

from slowstep.frameworks.tensorflow.inside import _operations  # noqa: E402
from slowstep.frameworks.tensorflow.inside._operations import Operations, TooMany, elements_of, operations_of  # noqa: E402

pytestmark = pytest.mark.slow

GIVEN = tf.TensorSpec((None, 4), tf.float32)


def traced(function: Callable[..., Any], **options: Any) -> Any:
    return tf.function(function, **options).get_concrete_function(GIVEN)


def chain(x: Any) -> Any:
    return tf.tanh(tf.exp(x))


def test_operations_are_counted_and_what_runs_nothing_is_not():
    assert operations_of(traced(chain)) == Operations(2, 2)


def test_what_is_not_asked_for_and_what_is_constant_is_left_out():
    def function(x: Any) -> Any:
        tf.sin(x)
        return chain(x) + tf.reduce_sum(tf.exp(tf.constant([1.0, 2.0])))

    assert operations_of(traced(function)) == Operations(3, 3)


def test_what_has_an_effect_is_counted_though_nothing_asks_for_it():
    variable = tf.Variable(0.0)

    def function(x: Any) -> Any:
        variable.assign_add(1.0)
        return tf.exp(x)

    assert operations_of(traced(function)) == Operations(2, 2)


def test_those_of_called_functions_are_added_each_time():
    inner = tf.function(chain)

    def function(x: Any) -> Any:
        return inner(inner(x))

    assert operations_of(traced(function)) == Operations(6, 6)


def test_of_what_is_fused_it_is_known_that_no_more_run():
    inner = tf.function(chain, jit_compile=True)

    assert operations_of(traced(lambda x: tf.exp(inner(x)))) == Operations(2, 4)


def test_of_a_function_that_is_fused_itself_it_is_known_that_no_more_run():
    assert operations_of(traced(chain, jit_compile=True)) == Operations(0, 2)
    assert operations_of(traced(chain, jit_compile=False)) == Operations(2, 2)


def test_where_all_is_fused_that_can_be_it_is_known_that_no_more_run(monkeypatch):
    monkeypatch.setattr(tf.config.optimizer, "get_jit", lambda: "autoclustering")
    assert operations_of(traced(chain)) == Operations(0, 2)
    monkeypatch.undo()
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_auto_jit=2")
    assert operations_of(traced(chain)) == Operations(0, 2)


def test_of_branches_one_runs():
    def function(x: Any) -> Any:
        return tf.cond(tf.reduce_sum(x) > 0, lambda: chain(chain(x)), lambda: tf.exp(x))

    found = operations_of(traced(function))

    assert found.most is not None
    assert found.most - found.fewest == 3


ENDLESS = {
    "loop": lambda x: tf.while_loop(lambda i, _: i < tf.shape(x)[0], lambda i, y: (i + 1, tf.exp(y)), (0, x))[1],
    "Python": lambda x: tf.ensure_shape(tf.numpy_function(lambda y: y, [x], tf.float32), x.shape),
    "data set": lambda x: tf.data.Dataset.from_tensor_slices(x).reduce(0.0, lambda a, y: a + tf.reduce_sum(y)),
}


@pytest.mark.parametrize("function", ENDLESS.values(), ids=ENDLESS)
def test_where_what_is_called_decides_there_is_no_most(function):
    found = operations_of(traced(lambda x: function(tf.exp(x))))

    assert found.most is None
    assert found.fewest >= 1


def test_on_several_devices_they_may_run_at_once():
    def function(x: Any) -> Any:
        with tf.device("CPU:0"):
            first = tf.exp(x)
        with tf.device("CPU:1"):
            return first + tf.tanh(x)

    assert operations_of(traced(function)) == Operations(0, 3)


def test_a_graph_that_is_too_large_is_not_counted(monkeypatch):
    monkeypatch.setattr(_operations, "MOST_OPERATIONS", 2)

    with pytest.raises(TooMany):
        operations_of(traced(chain))


def test_elements_are_those_of_the_variables_that_are_read():
    weight, other = tf.Variable(tf.ones((4, 3))), tf.Variable(1.0)
    open_shape = tf.Variable(tf.ones((2,)), shape=tf.TensorShape(None))

    assert elements_of(traced(lambda x: tf.matmul(x, weight) * other)) == 13
    assert elements_of(traced(lambda x: x * open_shape)) is None
