"""Which stretches are timed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from slowstep.record.timing import call_times
from slowstep.record.timing.call_times import PASSED, CallTimes


@pytest.mark.parametrize("cycle_ms", [(1, 24), (1, 1, 24), (1, 1, 24, 1)])
def test_of_stretches_in_turns_the_long_ones_are_timed_as_often_as_each_of_the_short(monkeypatch, cycle_ms):
    clock = SimpleNamespace(ns=1)
    monkeypatch.setattr(call_times, "time", SimpleNamespace(monotonic_ns=lambda: clock.ns))
    calls = CallTimes("fetch", lambda _: None, passed=PASSED)
    timed = [0] * len(cycle_ms)

    for k in range(40_000):
        at = k % len(cycle_ms)
        is_timed = calls.begin(clock.ns)
        clock.ns += cycle_ms[at] * 1_000_000
        if is_timed:
            calls.end(clock.ns)
            timed[at] += 1

    assert sum(timed) > 100
    assert [count / sum(timed) for count in timed] == pytest.approx([1 / len(cycle_ms)] * len(cycle_ms), abs=0.1)
