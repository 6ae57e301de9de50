"""Timed built-in calls: what is opened and read while a batch is made, who called it, and that nothing is left behind."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from slowstep.record.timing.builtin_calls import MOST_ROWS, builtin_rows
from slowstep.record.timing.call_times import FIRST, CallTimes

SAMPLES = 4


def read_twice(path: Path) -> None:
    for _ in range(2):
        with open(path, "rb") as file:
            file.read()


def make_batch(path: Path) -> None:
    for _ in range(SAMPLES):
        read_twice(path)
    time.sleep(0.01)


def notes_of(stretches: int, make: Any, *, early: int = 2, builtins: bool = True) -> list[dict[str, Any]]:
    """What is noted of so many stretches of one second each, by their clock."""
    notes: list[dict[str, Any]] = []
    calls = CallTimes("fetch", notes.append, builtins=builtins, share=0.01, early=early, describe=builtin_rows if builtins else None)
    for at_s in range(stretches):
        if calls.begin(at_s * 10**9 + 1):
            make()
            calls.end(at_s * 10**9 + 10**9, samples=SAMPLES)
    return notes


@pytest.fixture
def note(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "sample"
    path.write_bytes(b"x" * 100)
    (note,) = notes_of(FIRST, lambda: make_batch(path))
    return note


def row_of(note: dict[str, Any], word: str) -> dict[str, Any]:
    return next(row for row in note["rows"] if word in row["function"])


def test_files_opened_are_counted_with_the_function_that_opens_them(note: dict[str, Any]) -> None:
    opened = row_of(note, "open")

    assert (opened["calls"], opened["file"]) == (2 * SAMPLES, None)
    file, function, line, calls, _ = opened["callers"][0]
    assert (Path(file).name, function, line, calls) == (
        "test_builtin_calls.py",
        "read_twice",
        read_twice.__code__.co_firstlineno,
        2 * SAMPLES,
    )
    assert note["samples"] == SAMPLES


def test_what_a_batch_slept_for_is_known(note: dict[str, Any]) -> None:
    slept = row_of(note, "time.sleep")

    assert slept["calls"] == 1
    assert slept["total_ns"] >= 10_000_000


def test_python_functions_stand_beside_built_in_ones(note: dict[str, Any]) -> None:
    assert row_of(note, "make_batch")["line"] == make_batch.__code__.co_firstlineno


def test_stretches_add_up_and_end_with_their_share_of_the_time(tmp_path: Path) -> None:
    path = tmp_path / "sample"
    path.touch()

    notes = notes_of(30, lambda: make_batch(path))

    assert [note["samples"] for note in notes] == [SAMPLES, 2 * SAMPLES]
    assert [note["wall_ns"] for note in notes] == sorted(note["wall_ns"] for note in notes)


def test_no_more_rows_are_written_than_a_reader_wants() -> None:
    functions = [eval(f"lambda open_{i}=None: [None for _ in range(1000)]") for i in range(2 * MOST_ROWS)]

    (note,) = notes_of(FIRST, lambda: [function() for function in functions for _ in range(SAMPLES)])

    assert 0 < len(note["rows"]) <= MOST_ROWS


def test_without_built_in_functions_the_note_is_the_one_of_timed_calls(tmp_path: Path) -> None:
    path = tmp_path / "sample"
    path.touch()

    (note,) = notes_of(FIRST, lambda: make_batch(path), builtins=False)

    assert note["kind"] == "calls"
    assert not any("open" in function["function"] for function in note["functions"])


def test_no_profiler_is_left_behind(note: dict[str, Any]) -> None:
    assert note
    assert sys.getprofile() is None
