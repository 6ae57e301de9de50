"""How many operations a call of a jitted function runs at most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

jax: Any = pytest.importorskip("jax", reason="needs jax")
import jax.numpy as jnp  # noqa: E402

from slowstep.frameworks.jax.inside import _operations  # noqa: E402
from slowstep.frameworks.jax.inside._operations import size_of  # noqa: E402
from slowstep.record.steps.traced_operations import TooMany  # noqa: E402

pytestmark = pytest.mark.slow

GIVEN = jnp.ones((2, 4))


def most(function: Callable[..., Any]) -> int | None:
    found: int | None = size_of(jax.jit(function).trace(GIVEN).jaxpr).operations.most
    return found


def chain(x: Any) -> Any:
    return jnp.tanh(jnp.exp(x))


def test_operations_are_counted_and_it_is_not_known_how_many_are_left_when_they_are_fused():
    size = size_of(jax.jit(chain).trace(GIVEN).jaxpr)

    assert (size.operations.fewest, size.operations.most, size.elements) == (0, 2, 8)


def test_those_of_what_is_called_are_added_each_time():
    inner = jax.jit(chain)

    assert most(lambda x: inner(inner(x))) == 2 * (1 + 2)


def test_each_turn_of_a_loop_of_known_length_counts():
    assert most(lambda x: jax.lax.scan(lambda carry, _: (chain(carry), None), x, length=10)[0]) >= 20


def test_of_branches_the_longest_counts():
    def branch(x: Any) -> Any:
        return jax.lax.cond(x[0, 0] > 0, chain, lambda y: chain(chain(y)), x)

    assert 4 < (most(branch) or 0) < 12


UNKNOWN: dict[str, Callable[[Any], Any]] = {
    "a loop that ends by what it computes": lambda x: jax.lax.while_loop(lambda y: y.sum() < 100, lambda y: y + 1, x),
    "Python": lambda x: jax.pure_callback(lambda y: y, x, x),
    "a decomposition": lambda x: jnp.linalg.svd(x)[1],
}


@pytest.mark.parametrize("function", UNKNOWN.values(), ids=UNKNOWN)
def test_what_decides_itself_how_long_it_takes_is_not_known(function):
    assert most(lambda x: chain(function(x))) is None


def test_what_is_done_for_each_element_is_one_operation():
    assert most(lambda x: x.at[jnp.array([0, 1])].add(1.0).cumsum(0).sum()) is not None


def test_a_graph_that_is_too_large_is_not_looked_at(monkeypatch):
    monkeypatch.setattr(_operations, "MOST_OPERATIONS", 1)

    with pytest.raises(TooMany):
        most(chain)
