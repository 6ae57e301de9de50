"""Levers that change functions, where JAX makes code of what they are called in."""

from __future__ import annotations

import pytest

from slowstep.levers._calls.functions import redirected
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
