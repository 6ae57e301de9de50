"""How often a pipeline is read: often at first, then rarely, never for more than a thousandth of the time; no iterator that is gone."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from slowstep.frameworks.tensorflow.inside import _pipelines

TENTH_NS = 100_000_000


class Iterated:
    """Stands for an iterator of TensorFlow's."""


class Clock:
    """Readings of it take so many ns of its time."""

    def __init__(self, pipelines: Any, takes_ns: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns, self.takes_ns = TENTH_NS, takes_ns
        self.read: list[int] = []
        self.numbers: list[int | None] = []
        monkeypatch.setattr(_pipelines, "now", lambda: self.now_ns)
        monkeypatch.setattr(pipelines, "_read_one", self._read_one)

    def _read_one(self, pipeline: Any, iterator: Any) -> None:
        self.read.append(self.now_ns)
        self.numbers.append(pipeline.iterator)
        self.now_ns += self.takes_ns

    def run(self, pipelines: Any, seconds: int) -> list[float]:
        """Steps of a tenth of a second each; seconds between readings."""
        for _ in range(seconds * 10):
            pipelines.read(self.now_ns)
            self.now_ns += TENTH_NS
        return [round((after - before) / 1e9, 1) for before, after in pairwise(self.read)]


@pytest.fixture
def pipelines() -> Any:
    recorder: Any = SimpleNamespace(live=[True], spent_ns=0, once_ns=0, forgetters=[], fault=pytest.fail)
    recorder.shared = lambda kind: kind(recorder)
    return _pipelines.Pipelines(recorder)


def test_readings_are_made_twice_a_second_and_become_rare(pipelines, monkeypatch):
    iterator = Iterated()
    pipelines.add(iterator, 1)

    since = Clock(pipelines, 0, monkeypatch).run(pipelines, 2000)

    assert since[:3] == [0.5, 0.5, 0.5]
    assert since == sorted(since)
    assert since[-1] == 30.0


def test_a_reading_that_takes_long_is_followed_by_a_thousand_times_as_long_a_pause(pipelines, monkeypatch):
    iterator = Iterated()
    pipelines.add(iterator, 1)
    pipelines._numbers = 1

    since = Clock(pipelines, 2_000_000, monkeypatch).run(pipelines, 20)

    assert min(since) >= 2.0
    assert pipelines._recorder.spent_ns == (len(since) + 1) * 2_000_000


def test_one_reading_that_a_busy_machine_makes_long_is_followed_by_no_longer_pause(pipelines, monkeypatch):
    iterator = Iterated()
    pipelines.add(iterator, 1)
    pipelines._numbers = 1
    clock = Clock(pipelines, 2_000_000, monkeypatch)
    clock.run(pipelines, 10)
    clock.takes_ns = 30_000_000

    since = clock.run(pipelines, 10)

    assert max(since) < 2.3


def test_what_the_first_one_takes_is_spent_once_and_asks_for_no_pause(pipelines, monkeypatch):
    iterator = Iterated()
    pipelines.add(iterator, 1)

    Clock(pipelines, 20_000_000, monkeypatch).run(pipelines, 1)

    assert pipelines._recorder.once_ns == 20_000_000 * 2
    assert pipelines._recorder.spent_ns == 0


def test_iterators_that_are_gone_are_not_read(pipelines, monkeypatch):
    clock = Clock(pipelines, 0, monkeypatch)
    pipelines.add(Iterated(), 1)

    assert clock.run(pipelines, 1) == []
    assert clock.read == []


def test_what_has_ended_or_is_gone_takes_no_one_s_place(pipelines, monkeypatch):
    clock, living = Clock(pipelines, 0, monkeypatch), [Iterated() for _ in range(6)]
    added = [pipelines.add(iterator, number) for number, iterator in enumerate(living)]
    for each in added[2:5]:
        each.ended = True
    del living[5]

    pipelines.read(clock.now_ns)

    assert clock.numbers == [0, 1]


def test_those_that_are_read_on_come_before_newer_ones(pipelines, monkeypatch):
    clock, living = Clock(pipelines, 0, monkeypatch), [Iterated() for _ in range(7)]
    added = [pipelines.add(iterator, number or None) for number, iterator in enumerate(living)]
    added[1].fetched_by = 5

    pipelines.read(clock.now_ns)

    assert set(clock.numbers) == {None, 1, 5, 6}
    assert added[1].fetched_by is None


def test_a_fetch_has_only_those_read_that_its_thread_fetches_of(pipelines, monkeypatch):
    clock, living = Clock(pipelines, 0, monkeypatch), [Iterated() for _ in range(3)]
    added = [pipelines.add(iterator, number or None) for number, iterator in enumerate(living)]
    added[1].fetched_by, added[2].fetched_by = 5, 6

    pipelines.read(clock.now_ns, 5)

    assert clock.numbers == [1]
    assert added[2].fetched_by == 6


def test_who_has_none_to_read_lets_the_next_one_read(pipelines, monkeypatch):
    clock, iterator = Clock(pipelines, 0, monkeypatch), Iterated()
    pipelines.add(iterator, None)

    pipelines.read(clock.now_ns, 5)
    assert clock.numbers == []
    pipelines.read(clock.now_ns)
    assert clock.numbers == [None]


def test_what_another_thread_reads_just_now_is_not_waited_for(pipelines, monkeypatch):
    clock, iterator = Clock(pipelines, 0, monkeypatch), Iterated()
    pipelines.add(iterator, 1)

    with pipelines._reading:
        pipelines.read(clock.now_ns)
    assert clock.read == []
    pipelines.read(clock.now_ns)
    assert clock.numbers == [1]


def test_an_iterator_that_is_known_gets_the_number_of_its_waits(pipelines):
    iterator, another = Iterated(), Iterated()
    added = pipelines.add(iterator, None)

    assert pipelines.numbered(iterator, 7) is added
    assert added.iterator == 7
    assert pipelines.numbered(another, 8) is None
