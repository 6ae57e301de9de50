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


@pytest.mark.parametrize("result", [None, 1.0, "text", lambda: tf.ones((200, 200)), lambda: tf.constant(["text"] * 3)])
def test_nothing_large_and_nothing_of_the_hosts_is_kept(result):
    assert wait_for(result() if callable(result) else result) is None
