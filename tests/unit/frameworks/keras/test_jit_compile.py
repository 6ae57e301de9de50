"""The step of Keras' fit compiled by XLA, switched in a running call of `fit`."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="needs keras and tensorflow-cpu")
keras: Any = pytest.importorskip("keras", reason="needs keras and tensorflow-cpu")
if keras.config.backend() != "tensorflow":
    pytest.skip("Keras computes with another framework here", allow_module_level=True)

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from slowstep.frameworks.keras.inside._train_functions import check_exchangeable  # noqa: E402
from slowstep.frameworks.keras.inside.levers import jit_compile as lever  # noqa: E402
from slowstep.record.experiment.lever import LeverSpec, NotApplicable  # noqa: E402
from slowstep.record.experiment.training import Training  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")]

X, Y = np.ones((62, 8), "f"), np.ones((62, 1), "f")


class Switching(keras.callbacks.Callback):  # type: ignore[misc]
    """Has the lever made ready, on after ten batches and off after twenty."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.training, self.batches, self.ready, self.losses = Training(recorder), 0, list[bool](), list[float]()
        self.change: Any = None

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.batches += 1
        self.losses.append(float(logs["loss"]))
        if self.batches == 1:
            self.original = self.model.train_function
            self.change = lever.prepare(self.training, LeverSpec(name="jit-compile"))
        elif self.batches < 10:
            self.ready.append(self.change.ready())
        elif self.batches == 10:
            self.change.on()
        elif self.batches == 20:
            self.change.off()
            self.change.remove()
            assert self.model.train_function is self.original


def fitted(callback: Any, kind: type[Any] = keras.Sequential, **compiled: Any) -> Any:
    keras.utils.set_random_seed(0)
    made = kind([keras.layers.Dense(4, activation="gelu"), keras.layers.Dense(1)])
    made.compile("sgd", "mse", **compiled)
    made.fit(X, Y, batch_size=4, epochs=2, verbose=0, shuffle=False, callbacks=[callback])
    return made


def fitted_on_unknown(callback: Any) -> None:
    """Two epochs of data whose length nobody knows: five batches of four and one of two."""
    signature = (tf.TensorSpec((None, 8)), tf.TensorSpec((None, 1)))
    batches = [(X[at : at + 4], Y[at : at + 4]) for at in (0, 4, 8, 12, 16)] + [(X[:2], Y[:2])]
    data = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=signature)
    made = keras.Sequential([keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    made.fit(data, epochs=2, verbose=0, shuffle=False, callbacks=[callback])


def test_the_step_is_compiled_but_for_the_last_batch_of_an_epoch(recorder):
    losses: list[float] = []
    fitted(keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: losses.append(float(logs["loss"]))))
    switched = Switching(recorder)
    made = fitted(switched)

    # Of the ten batches one ends the first epoch.
    assert switched.ready == [False, False] + [True] * 6
    assert switched.change.effect == 9
    assert not made.jit_compile
    assert switched.losses == pytest.approx(losses, rel=1e-4)


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
def test_a_step_that_xla_cannot_compile_is_made_as_it_was(recorder):
    class Says(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            tf.py_function(lambda: None, [], [])
            return super().train_step(data)

    class Given(Switching):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if not self.batches:
                super().on_train_batch_end(batch, logs)
                return
            self.batches += 1
            with pytest.raises(NotApplicable) as refused:
                self.change.ready()
            assert str(refused.value) == lever.CANNOT_BE_COMPILED.format(lever.NO_KERNEL.format("EagerPyFunc"))

    given = Given(recorder)
    fitted(given, Says)

    # Of 32 the batch is gone that was fetched for it.
    assert (given.batches, given.change.effect) == (31, 0)


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
def test_it_is_not_ready_while_nobody_knows_which_batch_is_the_last(recorder):
    class Asks(Switching):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.batches += 1
            if self.batches == 1:
                self.change = lever.prepare(self.training, LeverSpec(name="jit-compile"))
            else:
                self.ready.append(self.change.ready())

    asks = Asks(recorder)
    fitted_on_unknown(asks)

    assert asks.ready == [False] * 5 + [True] * 6
    asks.change.remove()


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
def test_of_a_length_that_keras_has_counted_the_last_batch_is_made_as_it_was(recorder):
    class Switched(Switching):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.batches += 1
            if self.batches == 1:
                self.change = lever.prepare(self.training, LeverSpec(name="jit-compile"))
            elif self.batches < 8:
                self.change.ready()
            elif self.batches == 8:
                self.change.on()

    switched = Switched(recorder)
    fitted_on_unknown(switched)

    # Of batches 9 to 12 the last ends the second epoch.
    assert (switched.batches, switched.change.effect) == (12, 3)
    switched.change.off()
    switched.change.remove()


def test_a_version_of_keras_that_has_no_such_function_is_named():
    class Trainer:
        def make_train_function(self) -> None: ...

    Trainer.make_train_function.__module__ = "keras.src.backend.tensorflow.trainer"
    with pytest.raises(NotApplicable, match="version of Keras"):
        check_exchangeable(Trainer())


@pytest.mark.parametrize(("compiled", "why"), [({"run_eagerly": True}, lever.EAGER), ({"jit_compile": True}, lever.COMPILED)])
def test_it_has_no_meaning_where(recorder, compiled, why):
    said = []

    class Asks(Switching):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            with pytest.raises(NotApplicable) as refused:
                lever.prepare(self.training, LeverSpec(name="jit-compile"))
            said.append(str(refused.value))

    fitted(Asks(recorder), **compiled)

    assert set(said) == {why}
