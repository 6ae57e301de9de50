"""The layers of Keras' fit in 16 bits, switched in a running call of `fit`."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="needs keras and tensorflow-cpu")
keras: Any = pytest.importorskip("keras", reason="needs keras and tensorflow-cpu")
if keras.config.backend() != "tensorflow":
    pytest.skip("Keras computes with another framework here", allow_module_level=True)

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from slowstep.frameworks.keras.inside.levers import mixed_precision as lever  # noqa: E402
from slowstep.record.experiment.lever import LeverSpec, NotApplicable  # noqa: E402
from slowstep.record.experiment.training import Training  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")]

X, Y = np.ones((62, 8), "f"), np.ones((62, 1), "f")


class Switching(keras.callbacks.Callback):  # type: ignore[misc]
    """Has the lever made ready, on after eight batches and off after twelve."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._training, self._batches = Training(recorder), 0
        self.change: Any = None
        self.losses: list[float] = []
        self.refused: str | None = None

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._batches += 1
        self.losses.append(float(logs["loss"]))
        try:
            self._act()
        except NotApplicable as error:
            self.refused = self.refused or str(error)

    def _act(self) -> None:
        if self._batches == 1:
            self.change = lever.prepare(self._training, LeverSpec(name="mixed-precision"))
        elif self.change is None or self.refused is not None:
            return
        elif self._batches < 8:
            self.change.ready()
        elif self._batches == 8:
            self.change.on()
        elif self._batches == 12:
            self.change.off()
            self.change.remove()


class Says(keras.layers.Layer):  # type: ignore[misc]
    """Keeps in which types it was traced."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: list[str] = []

    def call(self, samples: Any) -> Any:
        self.kinds.append(samples.dtype.name)
        return samples


class Stubborn(keras.layers.Layer):  # type: ignore[misc]
    """Adds numbers of 32 bits."""

    def call(self, samples: Any) -> Any:
        return samples + tf.constant(1.0, tf.float32)


def trained(callback: Any, *layers: Any, **compiled: Any) -> Any:
    keras.utils.set_random_seed(0)
    made = keras.Sequential([keras.layers.Dense(4, activation="gelu"), *layers, keras.layers.Dense(1)])
    made.compile("sgd", "mse", **compiled)
    made.fit(X, Y, batch_size=4, verbose=0, shuffle=False, callbacks=[callback])
    return made


@pytest.mark.parametrize("compiled", [False, True], ids=["", "by XLA"])
def test_layers_compute_in_16_bits_while_it_is_on_and_are_left_as_they_were(recorder, compiled):
    switching, says = Switching(recorder), Says()
    made = trained(switching, says, jit_compile=compiled)

    assert (switching.refused, switching.change.effect) == (None, 4)
    assert set(says.kinds) == {"float32", "bfloat16"}
    assert {layer.dtype_policy.name for layer in made._flatten_layers()} == {"float32"}
    assert {weight.dtype for weight in made.weights} == {"float32"}
    plain = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: losses.append(float(logs["loss"])))
    losses: list[float] = []
    trained(plain, Says(), jit_compile=compiled)
    assert switching.losses == pytest.approx(losses, rel=0.02)
    assert switching.losses != losses


def test_a_model_that_does_not_bear_it_is_trained_as_it_was(recorder):
    switching = Switching(recorder)
    made = trained(switching, Stubborn())

    assert switching.refused is not None
    assert switching.refused.startswith(lever.NOT_BORNE.partition("(")[0])
    assert int(made.optimizer.iterations) == 16
    assert {layer.dtype_policy.name for layer in made._flatten_layers()} == {"float32"}


@pytest.mark.parametrize(
    ("layers", "compiled", "why"),
    [
        ([], {"run_eagerly": True}, lever.EAGER),
        ([keras.layers.Dense(2, dtype="mixed_bfloat16")], {}, lever.OTHER_POLICY.format("mixed_bfloat16")),
        ([keras.layers.Dense(2, dtype="float64")], {}, lever.OTHER_POLICY.format("float64")),
    ],
)
def test_it_has_no_meaning_where(recorder, layers, compiled, why):
    switching = Switching(recorder)
    trained(switching, *layers, **compiled)

    assert switching.refused == why
