"""A topic is measured when it is first asked for, once, and its fault costs only those who ask for it."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from made_topics import of_topics, with_topics
from slowstep.analyses.measurements import Measurements, NotProvided
from slowstep.faults import Fault, Faulty


class Big:
    """Stands for a recording."""


def counted(calls: list[str], **topics: Any) -> Measurements:
    """Measurements whose topics have these values; `calls` gets the name of each when it is measured."""

    def maker(name: str) -> Any:
        calls.append(name)
        return topics[name]

    return Measurements({name: lambda name=name: maker(name) for name in topics}, [])


def test_without_topics_any_is_an_error_that_names_it():
    with pytest.raises(NotProvided, match="'ledger'"):
        _ = of_topics().ledger


def test_a_topic_is_measured_when_it_is_first_asked_for_and_once():
    calls: list[str] = []
    m = counted(calls, steps="the steps", ledger="the ledger")

    assert calls == []
    assert (m.steps, m.steps) == ("the steps", "the steps")
    assert calls == ["steps"]


def test_whether_a_topic_is_there_is_known_without_measuring_it():
    calls: list[str] = []
    m = counted(calls, steps=1)

    assert m.has("steps")
    assert not m.has("steps", "device")
    assert calls == []


def test_what_is_left_is_measured_in_its_order_and_what_it_was_measured_from_let_go_of():
    big, calls = Big(), list[str]()
    gone = weakref.ref(big)
    makers = {name: lambda name=name, big=big: calls.append(name) or type(big).__name__ for name in ("steps", "ledger", "input")}
    m = Measurements(makers, [])
    assert m.ledger == "Big"

    m.settle()
    del big, makers
    gc.collect()

    assert calls == ["ledger", "steps", "input"]
    assert gone() is None
    assert m.input == "Big"


def test_a_topic_whose_measuring_failed_costs_only_who_asks_for_it():
    fault = Fault("find_ledger", ZeroDivisionError("made to fail"))
    m = Measurements({"ledger": lambda: fault, "steps": lambda: 1}, [fault])

    with pytest.raises(Faulty):
        _ = m.ledger
    assert m.steps == 1
    assert m.faults == (fault,)


def test_all_faults_are_known_though_nothing_was_asked_for():
    faults: list[Fault] = []
    m = Measurements({"steps": lambda: faults.append(Fault("find_steps", ValueError()))}, faults)

    assert [fault.task for fault in m.faults] == ["find_steps"]


def test_a_changed_topic_leaves_the_others_and_the_original():
    m = counted([], steps=1, ledger=2)

    other = with_topics(m, ledger=3)

    assert (other.steps, other.ledger, m.ledger) == (1, 3, 2)
