"""Profilers of the script's that are known to be there, running or waiting for their turn."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from set_aside import all_set_aside

torch = pytest.importorskip("torch")

from slowstep.frameworks.torch.inside._answers.script_profilers import ScriptProfilers  # noqa: E402
from slowstep.frameworks.torch.inside._capture import _refusal  # noqa: E402
from slowstep.record import living  # noqa: E402


@pytest.fixture
def faults() -> list[Exception]:
    return []


def waiting() -> Any:
    turn = torch.profiler.schedule(wait=100, warmup=1, active=1)
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=turn)


def test_one_that_is_started_is_known_until_it_is_gone(faults: list[Exception]) -> None:
    scripts = ScriptProfilers(torch, faults.append)
    try:
        profiler = waiting()
        before = scripts.are_there()
        profiler.start()
        with all_set_aside():
            started = scripts.are_there()
        profiler.stop()
        del profiler
        gc.collect()

        assert (before, started, scripts.are_there()) == (False, True, False)
    finally:
        scripts.undo()


def test_one_that_was_started_before_is_known(faults: list[Exception]) -> None:
    profiler = waiting()
    profiler.start()
    scripts = ScriptProfilers(torch, faults.append)
    scripts.undo()

    assert scripts.are_there()
    profiler.stop()


def test_one_that_was_never_started_does_not_count(faults: list[Exception]) -> None:
    profiler = waiting()
    scripts = ScriptProfilers(torch, faults.append)
    scripts.undo()

    assert scripts.are_there() is False
    del profiler


class Fleeting(torch.profiler.profile):  # type: ignore[misc]
    """Fails where it is compared or asked for its hash."""

    def __eq__(self, _: object) -> bool:
        raise AssertionError

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.slow
def test_those_that_are_gone_are_forgotten_and_none_is_asked(faults: list[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.profiler.profile, "start", lambda profiler: None)
    scripts = ScriptProfilers(torch, faults.append)
    try:
        for _ in range(20):
            Fleeting(activities=[torch.profiler.ProfilerActivity.CPU]).start()
        gc.collect()

        assert (len(scripts._known), scripts.are_there(), faults) == (0, False, [])
    finally:
        scripts.undo()


def test_a_fault_of_the_note_is_counted_and_the_script_s_call_goes_on(faults: list[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    monkeypatch.setattr(torch.profiler.profile, "start", started.append)
    scripts = ScriptProfilers(torch, faults.append)
    try:
        scripts._known = None  # type: ignore[assignment]
        profiler = waiting()
        profiler.start()

        scripts._known = weakref.WeakValueDictionary()
        assert (started, [type(fault) for fault in faults], scripts.are_there()) == ([profiler], [TypeError], None)
    finally:
        scripts.undo()


def test_what_takes_too_long_to_find_is_not_known(faults: list[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(living, "_MOST", 0)

    with all_set_aside():
        scripts = ScriptProfilers(torch, faults.append)
    scripts.undo()

    assert scripts.are_there() is None
    assert _refusal(scripts) is not None


def test_nothing_of_the_profiler_stays_replaced(faults: list[Exception]) -> None:
    start = torch.profiler.profile.start

    ScriptProfilers(torch, faults.append).undo()

    assert torch.profiler.profile.start is start
