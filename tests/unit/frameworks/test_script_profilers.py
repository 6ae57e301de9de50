"""Profilers of the script's that are known to be there, running or waiting for their turn."""

from __future__ import annotations

import gc

import pytest

from set_aside import all_set_aside

torch = pytest.importorskip("torch")

from slowstep.frameworks.torch.inside._answers.script_profilers import ScriptProfilers  # noqa: E402


def waiting() -> object:
    turn = torch.profiler.schedule(wait=100, warmup=1, active=1)
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=turn)


def test_one_that_is_started_is_known_until_it_is_gone() -> None:
    scripts = ScriptProfilers(torch)
    try:
        profiler = waiting()
        before = scripts.are_there()
        profiler.start()  # type: ignore[attr-defined]
        with all_set_aside():
            started = scripts.are_there()
        profiler.stop()  # type: ignore[attr-defined]
        del profiler
        gc.collect()

        assert (before, started, scripts.are_there()) == (False, True, False)
    finally:
        scripts.undo()


def test_one_that_was_there_before_is_known() -> None:
    profiler = waiting()
    scripts = ScriptProfilers(torch)
    scripts.undo()

    assert scripts.are_there()
    del profiler


def test_nothing_of_the_profiler_stays_replaced() -> None:
    start = torch.profiler.profile.start

    ScriptProfilers(torch).undo()

    assert torch.profiler.profile.start is start
