"""What an object holds is looked up without running code of the user's."""

from __future__ import annotations

import functools
from typing import Any
from unittest.mock import Mock

import pytest

from slowstep.record.attributes import called_in, code_of, held_by, name_of, qualified_name


def plain() -> None:
    """A function."""


class Held:
    """With attributes of every kind; whatever is computed raises."""

    __slots__ = ("__dict__", "empty", "slot")
    shared = "shared"

    def __init__(self) -> None:
        self.own, self.slot, self.shadowed = "own", "in a slot", self.method

    @property
    def computed(self) -> Any:
        raise AssertionError

    @functools.cached_property
    def cached(self) -> Any:
        raise AssertionError

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)

    def __call__(self) -> None:
        """Does nothing."""

    def method(self) -> None:
        """Does nothing."""


class Base(Held):
    """What inherits them."""


@pytest.mark.parametrize("kind", [Held, Base])
@pytest.mark.parametrize(
    ("name", "value"),
    [("own", "own"), ("shared", "shared"), ("slot", "in a slot"), ("method", Held.method)]
    + [(name, None) for name in ("empty", "computed", "cached", "absent")],
)
def test_an_attribute_is_what_stands_in_the_object_or_its_class(kind: type, name: str, value: Any) -> None:
    assert held_by(kind(), name) == value


def test_what_a_cached_property_has_computed_already_is_known() -> None:
    held = Held()
    held.__dict__["cached"] = 3

    assert held_by(held, "cached") == 3
    assert held_by(held, "shadowed") == held.method


def test_a_mock_has_nothing() -> None:
    assert held_by(Mock(), "batch_size") is None


@pytest.mark.parametrize(
    ("thing", "function", "name"),
    [
        (plain, plain, "plain"),
        (Held().method, Held.method, "Held.method"),
        (functools.partial(functools.partial(plain)), plain, "partial"),
        (functools.partial(Held()), Held.__call__, "partial"),
        (Held(), Held.__call__, "Held"),
        (functools.wraps(plain)(Held()), None, "plain"),
        (Held, None, "Held"),
        (len, None, "len"),
        (3, None, "int"),
    ],
    ids=["function", "method", "partial", "partial of an object", "object", "what wraps one", "class", "built in", "number"],
)
def test_what_runs_where_a_thing_is_called_and_what_the_thing_is_called(thing: Any, function: Any, name: str) -> None:
    found = called_in(thing)

    assert code_of(found) is (None if function is None else function.__code__)
    assert qualified_name(thing) == name
    assert name_of(thing).endswith(f".{name}")
