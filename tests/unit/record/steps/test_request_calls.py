"""Calls in requests that no loader's hook looks into."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import slowstep
from recorded import make_folder, only
from slowstep.record import active
from slowstep.record.recorder import Recorder
from slowstep.record.timing.call_times import EARLY, FIRST
from slowstep.record.writing.fastpath import TINY_NS
from slowstep.record.writing.format import PROFILED


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    recorder = Recorder(make_folder(tmp_path / "recording"), level=1)
    monkeypatch.setattr(active, "recorders", [recorder])
    yield recorder
    recorder.stop("test")


def decode(number: int, ns: int) -> int:
    until = time.monotonic_ns() + ns
    while time.monotonic_ns() < until:
        pass
    return number


def batches(ns: int) -> Iterator[int]:
    for number in range(FIRST + EARLY + 2):
        yield decode(number, ns)


def functions(recorder: Recorder) -> set[str]:
    """That were timed in requests."""
    recorder.stop("exit")
    timed = [note for note in only(recorder.folder).noted("calls") if note["of"] == "request"]
    return {function["function"].split(".")[-1] for note in timed for function in note["functions"]}


def test_what_makes_a_batch_is_timed_and_the_batches_are_the_same(recorder):
    recorder.local.me.marking = True

    assert list(slowstep.steps(batches(2 * TINY_NS))) == list(range(FIRST + EARLY + 2))

    assert {"batches", "decode"} <= functions(recorder)
    assert sum(record.flags == PROFILED for record in only(recorder.folder).of("FETCH")) >= EARLY


def test_short_requests_are_not(recorder):
    list(slowstep.steps(batches(TINY_NS // 100)))

    assert functions(recorder) == set()


def test_what_a_hooked_loader_answers_is_left_to_it(recorder):
    def lent() -> Iterator[int]:
        for number in batches(2 * TINY_NS):
            recorder.local.me.borrower.lend(1, number, 4, 0)
            yield number

    list(slowstep.steps(lent()))

    assert functions(recorder) == set()


def test_an_error_passes_and_ends_the_timing(recorder):
    def broken() -> Iterator[int]:
        yield from batches(2 * TINY_NS)
        decode(0, 2 * TINY_NS)
        raise KeyError("gone")

    with pytest.raises(KeyError):
        list(slowstep.steps(broken()))

    assert "decode" in functions(recorder)


def test_the_end_of_short_epochs_takes_nothing_of_what_was_timed(recorder):
    for _ in range(4 * (FIRST + EARLY)):
        list(slowstep.steps(decode(number, 2 * TINY_NS) for number in range(3)))

    recorder.stop("exit")
    timed = [note for note in only(recorder.folder).noted("calls") if note["of"] == "request"]
    assert max(note["stretches"] for note in timed) >= EARLY
    assert [note["stretches"] for note in timed] == sorted(note["stretches"] for note in timed)


def test_requests_of_a_validation_are_not(recorder):
    recorder.local.me.judging = 1

    list(slowstep.steps(batches(2 * TINY_NS)))

    assert functions(recorder) == set()
