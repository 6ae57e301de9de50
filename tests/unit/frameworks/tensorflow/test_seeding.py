"""The order of a shuffle of tf.data by the seeds of a run that is repeated."""

from __future__ import annotations

from typing import Any

import pytest

tf: Any = pytest.importorskip("tensorflow", reason="needs tensorflow-cpu")

from slowstep.frameworks.tensorflow.inside._framework import FRAMEWORK  # noqa: E402

pytestmark = pytest.mark.slow


def order(added: int, seed: int | None) -> list[int]:
    """Of a run with so much added to its seeds, in which the script sets one, or none."""
    undo = FRAMEWORK.shift_seeds(added)
    try:
        if seed is not None:
            tf.random.set_seed(seed)
        return [int(number) for number in tf.data.Dataset.range(50).shuffle(50)]
    finally:
        undo()


@pytest.mark.parametrize("seed", [None, 3], ids=["no seed", "one of the script's"])
def test_two_runs_with_one_offset_have_the_same_order_and_with_another_another(seed):
    assert order(0, seed) == order(0, seed)
    assert order(0, seed) != order(10_007, seed)


def test_the_script_gets_its_own_seed_where_nothing_is_added_and_its_functions_back():
    names = [(tf.random, "set_seed"), (tf.compat.v1, "set_random_seed"), (tf.compat.v1.random, "set_random_seed")]
    before = [getattr(owner, name) for owner, name in names]

    found = order(0, 3)

    assert [getattr(owner, name) for owner, name in names] == before
    tf.random.set_seed(3)
    assert [int(number) for number in tf.data.Dataset.range(50).shuffle(50)] == found
