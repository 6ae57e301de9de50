"""For what jitted functions were traced again: told with the hook that sees calls which compile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from slowstep.frameworks.jax.inside import jitted  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402


@pytest.fixture
def notes(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """What is noted of what is traced again."""
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(recorder, "note", lambda note: found.append(note) if note["kind"] == "retrace" else None)
    undo = jitted.install(recorder)
    recorder.watch()
    yield found
    undo()


def changes(notes: list[dict[str, Any]]) -> list[tuple[str, list[list[str]]]]:
    return [(note["function"], note["changes"]) for note in notes]


def scaled(state: dict[str, Any], batch: Any, times: int = 1) -> Any:
    return state["w"] * batch.sum() * times


def test_another_shape_and_another_type_are_named_by_their_argument(notes):
    step, state = jax.jit(scaled), {"w": jnp.ones(3)}
    for batch in (np.ones((32, 100), "f"), np.ones((32, 100), "f"), np.ones((32, 117), "f"), np.ones((32, 117), "i")):
        step(state, batch)

    shape, dtype = changes(notes)
    assert shape == ("scaled", [["batch", "shape", "(32, 100)", "(32, 117)"]])
    assert dtype == ("scaled", [["batch", "dtype", "float32", "int32"]])


def test_of_a_static_argument_the_name_alone_is_told(notes):
    step, state, batch = jax.jit(scaled, static_argnames="times"), {"w": jnp.ones(3)}, jnp.ones(3)
    step(state, batch, times=40)
    step(state, batch, times=41)

    assert changes(notes) == [("scaled", [["times", "value", "int", "another int"]])]


def test_a_number_of_python_is_of_another_type_than_an_array(notes):
    step, state = jax.jit(scaled), {"w": jnp.ones(3)}
    step(state, jnp.ones(()), 1.0)
    step(state, jnp.ones(()), jnp.float32(1.0))

    assert changes(notes) == [("scaled", [["times", "dtype", "float32, weak", "float32"]])]


def test_functions_that_are_jitted_anew_are_told(notes):
    for _ in range(3):
        jax.jit(lambda x: x + 1)(jnp.ones(3))

    assert changes(notes) == [("<lambda>", [["", "function", "", ""]])] * 2


def test_calls_that_have_effects_are_no_traces(notes, capsys):
    def printed(x: Any) -> Any:
        jax.debug.print("{x}", x=x[0])
        return x

    step = jax.jit(printed)
    for length in (3, 4, 3, 4, 3):
        step(jnp.ones(length))
    jax.effects_barrier()

    assert changes(notes) == [("printed", [["x", "shape", "(3,)", "(4,)"]])]
