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
        monkeypatch.setattr(_pipelines, "now", lambda: self.now_ns)
        monkeypatch.setattr(pipelines, "_read_one", self._read_one)

    def _read_one(self, pipeline: Any, iterator: Any) -> None:
        self.read.append(self.now_ns)
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
