"""What a call of TensorFlow gave, asked for whether the device has made it."""

from __future__ import annotations

from typing import Any

import pytest

tf: Any = pytest.importorskip("tensorflow", reason="needs tensorflow-cpu")

from slowstep.frameworks.tensorflow.inside._results import wait_for  # noqa: E402

pytestmark = pytest.mark.slow


def test_of_several_tensors_the_smallest_is_waited_for_and_kept():
    loss = tf.constant(1.0)

    wait = wait_for({"state": tf.ones((100, 100)), "loss": (loss, 3.0, None)})

    assert wait is not None
    assert wait.args == (loss,)  # type: ignore[attr-defined]
    assert wait() is True


@pytest.mark.parametrize("counted", [lambda: tf.constant(3), lambda: tf.zeros((0,)), lambda: tf.ragged.constant([[1.0]])])
def test_beside_what_the_host_has_anyway_the_loss_is_waited_for(counted):
    loss = tf.constant(1.0)

    wait = wait_for((counted(), loss))

    assert wait is not None
    assert wait.args == (loss,)  # type: ignore[attr-defined]


HOSTS = {
    "large": lambda: tf.ones((200, 200)),
    "text": lambda: tf.constant(["text"] * 3),
    "whole": lambda: tf.constant([1, 2]),
    "truth": lambda: tf.constant([True]),
    "ragged": lambda: tf.ragged.constant([[1.0], [1.0, 2.0]]),
    "sparse": lambda: tf.sparse.from_dense([[0.0, 1.0]]),
    "empty": lambda: tf.zeros((0, 4)),
}


@pytest.mark.parametrize("result", [None, 1.0, "text", *(pytest.param(made, id=name) for name, made in HOSTS.items())])
def test_nothing_large_and_nothing_of_the_hosts_is_kept(result):
    assert wait_for(result() if callable(result) else result) is None
