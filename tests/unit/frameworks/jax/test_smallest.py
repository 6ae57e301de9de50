"""Which array of a function's results is asked, and that it is looked for once."""

from __future__ import annotations

import weakref
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from slowstep.frameworks.jax.inside import _smallest  # noqa: E402
from slowstep.frameworks.jax.inside._smallest import KEPT_BYTES, Looking, Smallest  # noqa: E402

LARGE = KEPT_BYTES // 4 + 1


class State(NamedTuple):
    count: Any
    moments: Any


@jax.tree_util.register_dataclass
@dataclass
class Training:
    params: Any
    step: Any


def weights() -> dict[str, Any]:
    return {"w": jnp.ones(LARGE), "b": jnp.ones(LARGE)}


def of_kind(kind: str, count: Any) -> Any:
    """A result with one small array, and where it stands."""
    return {
        "alone": count,
        "beside": (weights(), count),
        "list": [weights(), [count]],
        "state": (weights(), (State(count, weights()),)),
        "key": {"params": weights(), "loss": {"mean": count}},
        "attribute": Training(weights(), count),
    }[kind]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The results that were looked through."""
    found: list[Any] = []
    arrays = _smallest.arrays
    monkeypatch.setattr(_smallest, "arrays", lambda tree: found.append(tree) or arrays(tree))
    return found


@pytest.mark.parametrize("kind", ["alone", "beside", "list", "state", "key", "attribute"])
def test_where_the_smallest_array_stands_is_kept(kind: str, looks: list[Any]) -> None:
    smallest = Smallest(Looking())
    counts = [jnp.asarray(number) for number in range(4)]

    found = [smallest.of(of_kind(kind, count)) for count in counts]

    assert all(each is count for each, count in zip(found, counts, strict=True))
    assert len(looks) <= 1
    assert smallest._path is not None


def test_a_large_array_is_not_kept_though_a_small_one_stood_there() -> None:
    smallest = Smallest(Looking())
    assert smallest.of([jnp.ones(2)]) is not None

    large = jnp.ones(LARGE)
    found = smallest.of([large])

    assert isinstance(found, weakref.ref)
    assert found() is large


def test_results_that_are_made_otherwise_are_looked_at_anew(looks: list[Any]) -> None:
    smallest, first, second = Smallest(Looking()), jnp.ones(1), jnp.ones(2)
    assert smallest.of([first]) is first

    # What looking may take is used up by now, but somebody waits for it.
    other = {"deep": [second]}
    assert smallest.of(other) is None
    assert smallest.of([]) is smallest.of(3.0) is None
    assert smallest.of(other, at_any_cost=True) is second
    assert looks[-1] is other
    assert smallest.of({"deep": [first]}) is first


def test_nothing_is_put_into_a_result_that_makes_what_it_lacks() -> None:
    smallest = Smallest(Looking())
    result = defaultdict(list, {"loss": jnp.ones(1)})

    smallest.of(result)
    assert smallest._path is None
    smallest.of([jnp.ones(1)], at_any_cost=True)
    for lacks in (defaultdict[Any, Any](list), defaultdict[Any, Any](list, {"loss": jnp.ones(1)})):
        before = dict(lacks)
        smallest.of(lacks)
        assert lacks == before
