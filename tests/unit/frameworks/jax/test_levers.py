"""Levers that change functions, where JAX makes code of what they are called in."""

from __future__ import annotations

import pytest

from slowstep.levers._calls.answers import QUEUED
from slowstep.levers._calls.functions import redirected
from slowstep.levers._calls.values import USED_UP
from slowstep.record.experiment.lever import LeverSpec

jax = pytest.importorskip("jax")


def scaled(x):
    return 2.0 * x


def tripled(x):
    return 3.0 * x


@pytest.mark.parametrize(
    "spec", [LeverSpec(name="stub", value=f"{__name__}:scaled"), LeverSpec(name="swap", value=f"{__name__}:scaled={__name__}:tripled")]
)
def test_code_that_is_made_meanwhile_holds_no_answer_of_a_lever(spec):
    step = jax.jit(lambda x: scaled(x) + 1.0)
    scaled(5.0)
    function = redirected(spec)
    function.switch(watching=True, on=False)
    scaled(5.0)

    function.switch(watching=False, on=True)
    try:
        answered, compiled = scaled(7.0), float(step(1.0))
    finally:
        function.switch(watching=False, on=False)

    assert answered == (10.0 if spec.name == "stub" else 21.0)
    assert (compiled, float(step(1.0))) == (3.0, 3.0)


class Batch:
    """What a script puts an array into, which is no tree of JAX's."""

    def __init__(self, array):
        self.array = array


def batch():
    return Batch(jax.numpy.ones(64))


@pytest.fixture
def stubbed():
    """The function that makes batches, watched."""
    function = redirected(LeverSpec(name="stub", value=f"{__name__}:batch"))
    function.switch(watching=True, on=False)
    yield function
    function.switch(watching=False, on=False)


def donate(made):
    jax.jit(lambda array: array + 1.0, donate_argnums=0)(made.array).block_until_ready()


@pytest.mark.parametrize("queued", [0, QUEUED - 1])
def test_a_result_that_is_given_away_is_refused_before_it_is_returned_again(stubbed, queued):
    first, *_ = [batch() for _ in range(1 + queued)]
    for _ in range(queued):
        stubbed.answer.look()
    assert (stubbed.answer.is_ready, stubbed.answer.refused) == (False, None)

    donate(first)
    stubbed.answer.look()

    assert stubbed.answer.refused == USED_UP


def test_a_result_that_is_given_away_while_the_lever_is_on_is_not_returned_again(stubbed):
    kept = batch()
    stubbed.switch(watching=False, on=True)
    assert batch() is kept

    donate(kept)
    fresh = batch()

    assert stubbed.answer.refused == USED_UP
    assert float(fresh.array.sum()) == 64.0


def test_a_result_that_stays_is_returned_again(stubbed):
    kept = batch()
    for _ in range(QUEUED):
        stubbed.answer.look()
    stubbed.switch(watching=False, on=True)

    assert (stubbed.answer.is_ready, stubbed.answer.refused) == (True, None)
    assert batch() is kept
