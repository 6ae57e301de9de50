"""Eager steps of Keras on TensorFlow: their operations are timed in a few of them, and a lever has them traced."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="needs keras and tensorflow-cpu")
keras: Any = pytest.importorskip("keras", reason="needs keras and tensorflow-cpu")
if keras.config.backend() != "tensorflow":
    pytest.skip("Keras computes with another framework here", allow_module_level=True)

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from recorded import make_folder, only  # noqa: E402
from slowstep.frameworks.keras.inside import fit  # noqa: E402
from slowstep.frameworks.keras.inside.levers.run_eagerly_off import IMPLEMENTATION  # noqa: E402
from slowstep.record.experiment.lever import LeverSpec, NotApplicable  # noqa: E402
from slowstep.record.experiment.training import Training  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402

# Of Keras with the newest NumPy.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")]

EXECUTES = ("TFE_Py_FastPathExecute", "TFE_Py_Execute", "TFE_Py_ExecuteCancelable")
X, Y = np.ones((160, 8), "f"), np.ones((160, 1), "f")
SPEC = LeverSpec(name="run-eagerly-off")


def executes() -> list[Any]:
    """What runs operations."""
    return [getattr(sys.modules["tensorflow.python.pywrap_tfe"], name) for name in EXECUTES]


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    recorder = Recorder(make_folder(tmp_path / "recording"), level=1)
    recorder.fault = lambda error: pytest.fail(repr(error))  # type: ignore[method-assign]
    before = executes()
    undo = fit.HOOK.install(recorder)
    yield recorder
    undo()
    recorder.leave()
    assert executes() == before


def model(kind: type[Any] = keras.Sequential, **compiled: Any) -> Any:
    keras.utils.set_random_seed(0)
    made = kind([keras.layers.Dense(4), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
    made.compile("sgd", "mse", **compiled)
    return made


def timed(recorder: Recorder, tmp_path: Path) -> list[dict[str, Any]]:
    recorder.stop("exit")
    found: list[dict[str, Any]] = only(tmp_path / "recording").noted("dispatched")
    return found


def test_operations_of_an_eager_fit_are_timed_in_a_few_steps(recorder, tmp_path):
    model(run_eagerly=True).fit(X, Y, batch_size=4, verbose=0)

    # Of 40 steps from the tenth on each third, nine of them.
    notes = timed(recorder, tmp_path)
    assert len(notes) == 9
    assert {note["operations"] for note in notes} == {notes[0]["operations"]}
    assert notes[0]["operations"] > 50
    assert all(0 < note["low_ns"] * 40 < note["operations_cpu_ns"] <= note["cpu_ns"] for note in notes)


def test_those_of_a_loop_of_the_scripts_own_are_timed_from_one_update_to_the_next(recorder, tmp_path):
    made, optimizer = model(), keras.optimizers.SGD()
    for _ in range(20):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((made(X[:4]) - Y[:4]) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, made.trainable_variables), made.trainable_variables, strict=True))

    assert [note["operations"] > 20 for note in timed(recorder, tmp_path)] == [True] * 4


def test_nothing_is_replaced_for_steps_that_are_traced(recorder, tmp_path):
    model().fit(X, Y, batch_size=4, verbose=0)

    assert not timed(recorder, tmp_path)


class Switching(keras.callbacks.Callback):
    """Switches the lever on and off between batches, once it is ready."""

    def __init__(self, recorder: Recorder, on: int = 10, off: int = 16) -> None:
        super().__init__()
        self.recorder = recorder
        self.switched_at, self.change, self.losses, self.seen = (on, off), None, [], []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.losses.append(float(logs["loss"]))
        on, off = self.switched_at
        if batch == 0:
            self.original = self.model.train_function
            self.change = IMPLEMENTATION.prepare(Training(self.recorder), SPEC)
        elif batch < on:
            self.seen.append((self.change.ready(), self.model.train_function is self.original))
        elif batch == on:
            self.change.on()
        elif batch == off:
            self.change.off()
            assert self.model.train_function is self.original


def test_the_lever_traces_the_step_of_a_running_fit_and_puts_it_back(recorder):
    losses: list[float] = []
    plain = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: losses.append(float(logs["loss"])))
    switched = Switching(recorder)
    for each in (plain, switched):
        model(run_eagerly=True).fit(X, Y, batch_size=4, verbose=0, shuffle=False, callbacks=[each])

    # Three batches are traced before it is ready.
    assert switched.seen == [(False, False)] * 2 + [(True, True)] * 7
    assert switched.change.effect == 6
    assert switched.model.run_eagerly
    # Also of what is drawn at random.
    assert switched.losses == pytest.approx(losses, rel=1e-4)


def test_where_functions_are_run_eagerly_they_are_traced_for_the_levers_calls_alone(recorder):
    tf.config.run_functions_eagerly(True)
    try:
        switched = Switching(recorder)
        with warnings.catch_warnings():
            # That functions of tf.data are traced all the same.
            warnings.simplefilter("ignore", UserWarning)
            model().fit(X, Y, batch_size=4, verbose=0, callbacks=[switched])

        assert tf.config.functions_run_eagerly()
    finally:
        tf.config.run_functions_eagerly(False)
    assert switched.change.effect == 6


def test_a_step_that_cannot_be_traced_is_made_as_it_was_and_the_lever_is_given_up(recorder):
    class Looks(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            logs = super().train_step(data)
            assert float(logs["loss"]) >= 0
            return logs

    class Given(Switching):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == 3:
                with pytest.raises(NotApplicable):
                    self.change.ready()
                self.change.remove()
            elif batch == 0:
                super().on_train_batch_end(batch, logs)

    looking = Given(recorder)
    trained = model(Looks, run_eagerly=True)
    trained.fit(X, Y, batch_size=4, verbose=0, callbacks=[looking])

    assert trained.train_function is looking.original
    assert looking.change.effect == 0
    assert int(trained.optimizer.iterations) == 40


def test_the_lever_has_no_meaning_where_the_step_is_traced(recorder):
    class Asks(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            with pytest.raises(NotApplicable):
                IMPLEMENTATION.prepare(Training(recorder), SPEC)

    model().fit(X[:8], Y[:8], batch_size=4, verbose=0, callbacks=[Asks()])
