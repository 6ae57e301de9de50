"""What is found once for each type: nothing that costs more the longer a batch is, and nothing that keeps a class alive."""

from __future__ import annotations

import gc
import operator
import sys
import weakref
from collections.abc import Callable
from functools import lru_cache, partial, wraps
from typing import Any

import numpy as np
import pytest

from slowstep.record.timing import forms
from slowstep.record.timing.batches import bytes_in, samples_in


def calls_in(measure: Callable[[Any], int], batch: Any) -> int:
    """How many functions of Python are called for a batch whose types are known."""
    measure(batch)
    calls = 0

    def count(_: Any, event: str, __: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        measure(batch)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("measure", [samples_in, bytes_in])
@pytest.mark.parametrize("value", [7, 0.5, True, None, "word", b"word"])
def test_plain_values_are_passed_over(measure: Callable[[Any], int], value: Any) -> None:
    assert calls_in(measure, [[value] * 64] * 64) < 64 * 10


@pytest.mark.parametrize("measure", [samples_in, bytes_in])
def test_what_a_known_type_tells_is_not_searched_for_again(measure: Callable[[Any], int]) -> None:
    arrays = [np.zeros(())] * 64

    assert calls_in(measure, arrays) < 64 * 5


@pytest.mark.parametrize("measure", [samples_in, bytes_in])
def test_of_a_batch_of_endless_parts_nothing_is_known(measure: Callable[[Any], int]) -> None:
    batch = [[[[np.zeros(())] * 64] * 64] * 64] * 64

    assert calls_in(measure, batch) < 20_000
    assert measure(batch) == -1


def test_all_arrays_of_many_samples_are_known() -> None:
    assert bytes_in([{name: np.zeros(2) for name in "abcdefgh"}] * 64) == 64 * 8 * 16


@pytest.mark.slow
def test_a_class_is_not_kept_alive() -> None:
    class Local:
        __slots__ = ("nbytes", "shape")

    thing = Local()
    thing.shape = (3,)  # type: ignore[attr-defined]
    known, samples = weakref.ref(Local), samples_in(thing)
    del Local, thing
    gc.collect()

    assert (samples, known()) == (3, None)


def test_a_class_at_the_place_of_a_dead_one_is_looked_at_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(forms._known, id(np.ndarray), forms.form_of([]))

    assert samples_in(np.zeros((5, 2))) == 5


def test_types_that_come_and_go_are_not_all_kept() -> None:
    for _ in range(1000):
        samples_in(type("Passing", (), {"shape": (1,)})())

    assert len(forms._known) <= 256


def of_a_library(text: str, **known: Any) -> Any:
    """What an expression gives, written in an installed package."""
    return eval(compile(text, "/env/site-packages/package/batches.py", "eval"), known)


GIVE = of_a_library("lambda batch: batch.held")


def mapping(values: Any, **more: Any) -> Any:
    """A mapping that holds an array of three."""
    batch = type("Mapping", (), {"keys": GIVE, "values": values, **more})()
    batch.held = [np.zeros(3)]
    return batch


def asked(*_: Any) -> Any:
    raise BaseException("a function of the user's was asked")


class Called:
    """An object of the user's that is called."""

    def __init__(self, *given: Any) -> None:
        if given:
            asked()

    def __call__(self, batch: Any) -> Any:
        asked()


@pytest.mark.parametrize(
    "function",
    [
        asked,
        Called(),
        Called,
        partial(asked),
        partial(Called()),
        staticmethod(asked),
        lru_cache(asked),
        wraps(asked)(of_a_library("lambda batch: inner(batch)", inner=asked)),
        wraps(GIVE)(lambda batch: asked()),
    ],
    ids=[
        *("function", "object", "class", "partial", "partial of an object", "static"),
        *("cached", "within a library's", "around a library's"),
    ],
)
def test_a_function_of_the_users_is_not_asked_whatever_calls_it(function: Any) -> None:
    batch = mapping(function, shape=property(function), nbytes=property(function))

    assert (samples_in(batch), bytes_in(batch)) == (-1, -1)


def test_a_shape_of_the_users_is_not_asked_for_its_lengths() -> None:
    batch = type("Array", (), {})()
    batch.shape = type("Lengths", (), {"__getitem__": asked})()

    assert samples_in(batch) == -1


def test_what_gives_values_and_no_keys_is_no_mapping() -> None:
    batch = type("Registry", (), {"values": GIVE})()
    batch.held = [np.zeros(3)]

    assert samples_in(batch) == -1


@pytest.mark.parametrize(
    "function",
    [GIVE, partial(GIVE), of_a_library("type('Giving', (), {'__call__': lambda _, batch: batch.held})()"), operator.attrgetter("held")],
    ids=["function", "partial", "object", "written in C"],
)
def test_a_library_s_own_is_asked(function: Any) -> None:
    assert samples_in(mapping(function)) == 3


def test_a_mapping_is_asked_as_it_was_when_its_type_was_first_seen() -> None:
    batch = mapping(GIVE)
    before = samples_in(batch)
    type(batch).values = asked

    assert (before, samples_in(batch)) == (3, 3)
