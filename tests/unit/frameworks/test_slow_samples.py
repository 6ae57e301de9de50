from __future__ import annotations

import random
from typing import Any

import pytest

from slowstep.frameworks.torch.inside._loader import slow_samples
from slowstep.frameworks.torch.inside._loader.slow_samples import SHORTEST_NS, TimedIndices, count_made, record_slow, timed_indices
from slowstep.record.writing.threads import ThreadState

MS = 1_000_000
BATCH = list(range(64))


class Fetcher:
    """A fetcher that walks the indices itself."""

    auto_collation = True

    def __init__(self) -> None:
        self.dataset: list[int] = []


class Making:
    """Batches of 64 samples of `usual_ns`, made on a clock of its own; one batch in `every`, by chance, holds one of 30 ms."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, usual_ns: int, every: int) -> None:
        self.usual_ns, self.every, self.at_ns, self.made, self.planted = usual_ns, every, 0, 0, 0
        self.me, self.slow, self.timed = ThreadState(), list[int](), 0
        self.chance = random.Random(1)
        monkeypatch.setattr(slow_samples, "now", lambda: self.at_ns)

    def make(self) -> None:
        begin_ns = self.at_ns
        index = timed_indices(self.me, Fetcher(), BATCH)
        slow = None if self.chance.randrange(self.every) else 5
        self.planted += slow is not None
        for sample in index:
            self.at_ns += 30 * MS if sample == slow else self.usual_ns
        wall_ns = self.at_ns - begin_ns
        self.me.fetch_ns += (wall_ns - self.me.fetch_ns) // 8 if self.me.fetch_ns else wall_ns
        count_made(self.me, wall_ns)
        if type(index) is TimedIndices:
            self.timed += len(index)
            record_slow(self.me, self._event, index, self.made)
        self.made += 1

    def _event(self, kind: int, t0: int, t1: int, *fields: Any, **_: Any) -> None:
        self.slow.append(fields[0])


def test_rare_slow_samples_among_short_ones_are_seen_each_time(monkeypatch):
    making = Making(monkeypatch, usual_ns=12_000, every=9)

    for _ in range(450):
        making.make()

    # But for those at the very first, which nothing that was made before pays for.
    assert making.planted > 40
    assert len(making.slow) >= making.planted - 4


def test_as_many_samples_are_timed_as_what_was_made_pays_for(monkeypatch):
    making = Making(monkeypatch, usual_ns=5_000, every=40)

    for _ in range(4000):
        making.make()

    assert 0.9 * making.at_ns < making.timed * SHORTEST_NS <= making.at_ns
    assert making.planted > 80
    assert len(making.slow) == pytest.approx(making.planted * making.timed / (4000 * 64), rel=0.25)


def test_what_a_slow_data_set_has_left_over_pays_for_a_quick_one_only_for_a_second(monkeypatch):
    making = Making(monkeypatch, usual_ns=10 * MS, every=10**9)
    for _ in range(100):
        making.make()
    making.usual_ns, making.timed = 1_000, 0

    for _ in range(4000):
        making.make()

    assert making.timed * SHORTEST_NS <= slow_samples.MOST_UNSPENT_NS + 4000 * 64 * 1_000
