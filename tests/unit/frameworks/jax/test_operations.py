"""How many operations a call of a jitted function runs at most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

jax: Any = pytest.importorskip("jax", reason="needs jax")
import jax.numpy as jnp  # noqa: E402

from slowstep.frameworks.jax.inside import _operations  # noqa: E402
from slowstep.frameworks.jax.inside._operations import size_of  # noqa: E402
from slowstep.record.steps.traced_operations import Computed, TooMany  # noqa: E402

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


def computed(function: Callable[..., Any], *given: Any) -> Computed | None:
    found: Computed | None = size_of(jax.jit(function).trace(*given).jaxpr).computed
    return found


IMAGES, KERNEL = jnp.ones((2, 8, 8, 3)), jnp.ones((3, 3, 3, 5))


def convolved(x: Any, kernel: Any, groups: int = 1, steps: int = 1) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, kernel, (steps, steps), "SAME", dimension_numbers=numbers, feature_group_count=groups)


A, B = jnp.ones((6, 7, 4)), jnp.ones((6, 4, 5))
COMPUTED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Computed]] = {
    "matrices": (lambda a, b: a @ b, (A, B), Computed(products=6 * 7 * 4 * 5, most_products=840, given=6 * 7 * 5)),
    "a convolution": (convolved, (IMAGES, KERNEL), Computed(products=640 * 27, most_products=640 * 27, given=640)),
    "what is given": (lambda x: jnp.tanh(x).reshape(8), (GIVEN,), Computed(given=8)),
    "what is reduced": (lambda x: x.max(), (A,), Computed(given=168)),
    "what is sorted": (lambda x: jax.lax.sort(x), (A,), Computed(sorted=168)),
    "what is put": (lambda x, at, rows: x.at[at].add(rows), (GIVEN, jnp.zeros(9, int), jnp.ones((9, 4))), Computed(scattered=36, given=9)),
    "turns": (
        lambda x: jax.lax.scan(lambda carry, _: (carry @ jnp.ones((4, 4)), None), x, length=10)[0],
        (GIVEN,),
        Computed(products=320, most_products=320, given=160),
    ),
    "several": (lambda a, b, x: ((a @ b).sum(), x @ x.T), (A, B, GIVEN), Computed(products=856, most_products=840, given=210)),
}


@pytest.mark.parametrize(("function", "given", "expected"), COMPUTED.values(), ids=COMPUTED)
def test_what_operations_compute_is_told_by_their_shapes(function, given, expected):
    found = computed(function, *given)

    assert found is not None
    # Indices are compared and moved, too.
    assert {**asdict(found), "given": 0} == {**asdict(expected), "given": 0}
    assert expected.given <= found.given <= max(4 * expected.given, 10)


def test_of_branches_the_most_of_each_counts_and_the_least_of_all_products():
    def function(x: Any) -> Any:
        return jax.lax.cond(x[0, 0] > 0, lambda y: (y @ y.T) @ y, lambda y: jnp.sort(jnp.tile(y, (1, 9)))[:, :4], x)

    found = computed(function, GIVEN)

    assert found is not None
    assert (found.products, found.most_products, found.sorted) == (0, 16, 72)


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (lambda x, kernel: convolved(x, kernel, groups=3), (IMAGES, jnp.ones((3, 3, 1, 6)))),
        (lambda a, b: a @ b, (A.astype(jnp.bfloat16), B.astype(jnp.bfloat16))),
    ],
    ids=["groups", "another type"],
)
def test_what_some_products_take_is_not_known_but_how_many_operations_there_are(function, given):
    size = size_of(jax.jit(function).trace(*given).jaxpr)

    assert size.computed is None
    assert size.operations.most is not None


UNKNOWN: dict[str, Callable[[Any], Any]] = {
    "a loop that ends by what it computes": lambda x: jax.lax.while_loop(lambda y: y.sum() < 100, lambda y: y + 1, x),
    "Python": lambda x: jax.pure_callback(lambda y: y, x, x),
    "a decomposition": lambda x: jnp.linalg.svd(x)[1],
    "an operation of a name that is not known": lambda x: jax.lax.lgamma(x),
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
