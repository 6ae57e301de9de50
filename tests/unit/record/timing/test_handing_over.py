"""A function that hands something to another thread is known by the methods that it names."""

from __future__ import annotations

import queue
import threading
from typing import Any

import pytest

from slowstep.record.timing.thread_watch import hands_over


def puts(ready: queue.Queue[int]) -> None:
    ready.put(1)


def tells(done: threading.Event) -> None:
    done.set()


def notifies(ready: threading.Condition) -> None:
    with ready:
        ready.notify_all()


def counts(seen: list[int]) -> int:
    return len(set(seen))


def changes(array: Any) -> Any:
    return array.at[0].set(1)


def tells_one_of(events: dict[str, threading.Event]) -> None:
    events["done"].set()


def takes(ready: queue.Queue[int]) -> int:
    return ready.get()


@pytest.mark.parametrize(
    ("function", "does"),
    [(puts, True), (tells, True), (notifies, True), (counts, False), (takes, False), (changes, False), (tells_one_of, True)],
)
def test_a_function_hands_over_by_a_method_and_not_by_a_type_of_that_name(function, does):
    assert hands_over(function.__code__) is does
