"""Before anything is recorded stacks of the main thread are taken, and only until then."""

from __future__ import annotations

import threading
import time

import pytest

from slowstep.record.timing import startup_stacks
from slowstep.record.timing.startup_stacks import StartupStacks

PERIOD_S = 0.001


@pytest.fixture
def stacks(monkeypatch: pytest.MonkeyPatch) -> StartupStacks:
    monkeypatch.setattr(startup_stacks, "_PERIOD_S", PERIOD_S)
    return StartupStacks()


def wait_for(count: int, stacks: StartupStacks) -> None:
    deadline = time.monotonic() + 60
    while len(stacks._taken) < count:
        assert time.monotonic() < deadline
        time.sleep(PERIOD_S)


def test_they_stand_for_all_time_from_the_first_to_the_last(stacks):
    began = time.monotonic_ns()
    stacks.start()
    wait_for(5, stacks)
    thread, taken = stacks.end()
    stacks._thread.join(60)

    assert thread == threading.main_thread().native_id
    assert "wait_for" in {code.co_name for _, _, places in taken for code, _, _ in places}
    assert began <= taken[0][0] - taken[0][1]
    assert [at - weight for at, weight, _ in taken[1:]] == [at for at, _, _ in taken[:-1]]


def test_nothing_is_taken_after_the_end(stacks):
    stacks.start()
    wait_for(1, stacks)
    stacks.end()
    stacks._thread.join(60)

    assert not stacks._thread.is_alive()


def test_a_process_that_never_trains_is_looked_at_for_so_long_and_no_longer(stacks, monkeypatch):
    monkeypatch.setattr(startup_stacks, "_END_S", 0.0)
    stacks.start()
    stacks._thread.join(60)

    assert not stacks._thread.is_alive()
    assert stacks.end()[1] == []


def test_no_thread_is_no_fault(stacks, monkeypatch):
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    stacks.start()

    assert stacks.end()[1] == []
