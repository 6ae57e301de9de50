"""For what tf.functions were traced again, as the types of their traces say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

tf: Any = pytest.importorskip("tensorflow", reason="needs tensorflow-cpu")

from recorded import make_folder  # noqa: E402
from slowstep.frameworks.tensorflow.inside import functions, tracing  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """What is noted of what is traced again."""
    recorder, found = Recorder(make_folder(tmp_path / "recording"), level=0), []
    monkeypatch.setattr(recorder, "fault", lambda error: pytest.fail(repr(error)))
    monkeypatch.setattr(recorder, "note", lambda note: found.append(note) if note["kind"] == "retrace" else None)
    undos = [functions.install(recorder), tracing.install(recorder)]
    recorder.watch()
    yield found
    for undo in reversed(undos):
        undo()
    recorder.stop("exit")


def changes(notes: list[dict[str, Any]]) -> list[tuple[str, list[list[str]]]]:
    return [(note["function"], note["changes"]) for note in notes]


@tf.function
def scaled(batch: Any, rate: Any = 1.0) -> Any:
    return tf.reduce_sum(batch["x"]) * rate


def test_shapes_types_and_values_are_named_by_their_argument(notes):
    x, longer = tf.ones((32, 100)), tf.ones((32, 117))
    for batch, rate in (
        ({"x": x}, 0.1),
        ({"x": x}, 0.1),
        ({"x": longer}, 0.1),
        ({"x": longer}, 0.09),
        ({"x": tf.cast(longer, "int32")}, 1),
    ):
        scaled(batch, rate)

    shape, value, both = changes(notes)
    assert shape == ("scaled", [["batch['x']", "shape", "(32, 100)", "(32, 117)"]])
    assert value == ("scaled", [["rate", "value", "0.1", "0.09"]])
    assert [change[1] for change in both[1]] == ["dtype", "value"]


def test_variables_that_the_first_trace_makes_are_no_change(notes):
    class Layer(tf.Module):
        weight = None

        @tf.function
        def __call__(self, x: Any) -> Any:
            if self.weight is None:
                self.weight = tf.Variable(tf.ones(3))
            return x * self.weight

    layer = Layer()
    layer(tf.ones(3))
    layer(tf.ones((2, 3)))

    assert changes(notes) == [("__call__", [["x", "shape", "(3,)", "(2, 3)"]])]


def test_functions_that_are_made_anew_and_other_objects_are_told(notes):
    class Settings:
        rate = 0.1

    for _ in range(2):
        tf.function(lambda x: x + 1)(tf.ones(3))
    step = tf.function(lambda x, settings: x * settings.rate)
    kept = [Settings(), Settings()]
    for settings in kept:
        step(tf.ones(3), settings)

    anew, other = changes(notes)
    assert anew[1] == [["", "function", "", ""]]
    assert other[1] == [["settings", "object", "Settings", "another Settings"]]


def test_what_an_iterator_gives_is_told_of_it(notes):
    step = tf.function(lambda batches: tf.reduce_sum(next(batches)))
    for length in (3, 4):
        step(iter(tf.data.Dataset.from_tensors(tf.ones(length))))

    assert changes(notes)[0][1] == [["batches", "shape", "(3,)", "(4,)"]]
