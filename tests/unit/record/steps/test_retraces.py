"""What is noted of functions that are traced again: which argument changed, in short, redacted, and not without end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recorded import make_folder
from slowstep.record.recorder import Recorder
from slowstep.record.steps.retraces import (
    MOST_ARGUMENTS,
    MOST_CHANGES,
    MOST_CHARACTERS,
    NOTED,
    Retraces,
    TracedArgument,
    TracedArguments,
    object_argument,
    value_argument,
)


class Function:
    """Stands for one that is traced."""


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Recorder, list[dict[str, Any]]]]:
    """A recorder of a thread that trains, and what is noted."""
    recorder, found = Recorder(make_folder(tmp_path / "recording"), level=0), []
    monkeypatch.setattr(recorder, "fault", lambda error: pytest.fail(repr(error)))
    monkeypatch.setattr(recorder, "note", found.append)
    recorder.watch()
    yield recorder, found
    recorder.stop("exit")


def array(*shape: int, dtype: str = "float32") -> TracedArgument:
    return TracedArgument(str(shape), dtype)


def changes(notes: tuple[Recorder, list[dict[str, Any]]], *traces: TracedArguments) -> list[list[list[str]]]:
    """Of each note, what changed between these traces of a function."""
    recorder, found = notes
    retraces, function = Retraces(recorder, "jax"), Function()
    for each in traces:
        retraces.traced(function, "step", None, lambda each=each: each)
    return [note["changes"] for note in found]


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (array(32, 100), array(32, 117), ["x", "shape", "(32, 100)", "(32, 117)"]),
        (array(3), array(3, dtype="int32"), ["x", "dtype", "float32", "int32"]),
        (value_argument("x", 0.1), value_argument("x", 0.09), ["x", "value", "0.1", "0.09"]),
        (value_argument("x", -1), value_argument("x", -2), ["x", "value", "-1", "-2"]),
        (value_argument("x", True), array(3), ["x", "structure", "True", "float32 (3,)"]),
    ],
    ids=["shape", "type", "value", "values whose hashes are one", "an array in the place of a value"],
)
def test_what_changed_is_noted(notes, before, after, change):
    assert changes(notes, {"w": array(5), "x": before}, {"w": array(5), "x": after}) == [[change]]


def test_another_object_is_told_from_the_same_one(notes):
    one, other = Function(), Function()
    first, same, another = ({"model": object_argument(each)} for each in (one, one, other))

    assert changes(notes, first, same, another) == [[["model", "object", "Function", "another Function"]]]


def test_a_part_that_came_or_went_is_named(notes):
    assert changes(notes, {"x": array(3)}, {"x": array(3), "mask": array(4)}) == [[["mask", "structure", "", "float32 (4,)"]]]


def test_the_trace_most_alike_is_compared_with(notes):
    training, validating = ({"x": array(32), "training": value_argument("training", each)} for each in (True, False))
    last = {**training, "x": array(17)}

    assert changes(notes, training, validating, last)[1] == [["x", "shape", "(32,)", "(17,)"]]


def test_the_first_trace_and_one_for_the_same_are_none(notes):
    assert changes(notes, {"x": array(3)}, {"x": array(3)}) == []


def test_neither_a_secret_nor_a_long_text_is_noted(notes):
    token, text = ({"name": value_argument("auth_token", each)} for each in ("s3cret", "other"))
    found = changes(notes, {**token, "path": value_argument("path", "a")}, {**text, "path": value_argument("path", 999 * "b")})

    assert found[0][0] == ["name", "value", "***", "another ***"]
    assert len(found[0][1][3]) == MOST_CHARACTERS


def test_of_many_traces_and_changes_few_are_noted(notes):
    many = [{f"x{part}": array(number) for part in range(9)} for number in range(40)]
    changes(notes, *many)

    assert [note["number"] for note in notes[1]] == [*range(1, NOTED + 1), 16, 32]
    assert {(len(note["changes"]), note["more"]) for note in notes[1]} == {(MOST_CHANGES, 9 - MOST_CHANGES)}


def test_a_function_of_more_arguments_than_are_looked_at_is_passed_over(notes):
    assert changes(notes, *({f"x{part}": array(number) for part in range(MOST_ARGUMENTS + 1)} for number in range(2))) == []


def test_functions_that_are_made_anew_of_one_code_are_noted(notes):
    recorder, found = notes
    retraces, code = Retraces(recorder, "jax"), test_functions_that_are_made_anew_of_one_code_are_noted.__code__
    made = [Function() for _ in range(3)]
    for function in made:
        retraces.traced(function, "step", code, lambda: {"x": array(3)})

    assert [(note["number"], note["changes"]) for note in found] == [(1, [["", "function", "", ""]]), (2, [["", "function", "", ""]])]


def test_nothing_is_noted_where_nothing_trains_nor_in_a_validation(notes):
    recorder, found = notes
    recorder.local.me.judging = 1
    changes(notes, {"x": array(3)}, {"x": array(4)})
    recorder.local.me.judging = 0
    recorder.watched.clear()
    changes(notes, {"x": array(3)}, {"x": array(4)})

    assert found == []
