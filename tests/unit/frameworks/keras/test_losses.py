"""The loss of each call of Keras on TensorFlow, in runs that were asked for it, and of a step where an experiment wants it."""

from __future__ import annotations

import struct
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
from slowstep.frameworks.keras.inside import fit, losses  # noqa: E402
from slowstep.record.experiment.losses import ENOUGH, UNSEEN  # noqa: E402
from slowstep.record.patch import all_of  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402
from slowstep.record.writing import format as fmt  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")]

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(30, 8)).astype("f"), RANDOM.normal(size=(30, 1)).astype("f")
BATCHES = [slice(at, at + 8) for at in range(0, 30, 8)]


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """One that was asked for losses."""
    monkeypatch.setenv(fmt.ENV_LOSSES, "1")
    yield from hooked(tmp_path)


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[Recorder]:
    """One that experiments."""
    yield from hooked(tmp_path)


def hooked(tmp_path: Path) -> Iterator[Recorder]:
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    recorder.experiment = True
    recorder.fault = lambda error: pytest.fail(repr(error))  # type: ignore[method-assign]
    before = methods()
    undo = all_of([hook.install(recorder) for hook in sorted([fit.HOOK, *losses.HOOKS], key=lambda hook: hook.name)])
    yield recorder
    undo()
    assert methods() == before
    recorder.stop("exit")


def methods() -> list[Any]:
    """What is hooked."""
    callback_list = keras.src.callbacks.callback_list.CallbackList
    return [callback_list.on_train_batch_begin, callback_list.on_train_batch_end, keras.Model.train_on_batch]


def model(kind: Any = keras.Sequential, **compiled: Any) -> Any:
    keras.utils.set_random_seed(0)
    made = kind([keras.layers.Dense(4), keras.layers.Dense(1)])
    made.compile("sgd", "mse", **compiled)
    return made


def recorded(recorder: Recorder, tmp_path: Path) -> tuple[list[float], list[int]]:
    """Losses, and of how many updates each is the mean."""
    recorder.stop("exit")
    records = only(tmp_path / "recording").of("LOSS")
    return [struct.unpack("<d", record.a.to_bytes(8, "little", signed=True))[0] for record in records], [record.b for record in records]


def said() -> list[float]:
    """What `train_on_batch` says of two epochs."""
    trained = model()
    return [float(trained.train_on_batch(X[batch], Y[batch])) for _ in range(2) for batch in BATCHES]


def test_each_call_has_the_loss_that_it_says_in_epochs_too_and_of_a_smaller_batch(asked, tmp_path):
    expected = said()
    model().fit(X, Y, batch_size=8, epochs=2, shuffle=False, verbose=0)

    found, updates = recorded(asked, tmp_path)
    assert found[:8] == pytest.approx(expected, rel=1e-6)
    assert found[8:] == pytest.approx(expected, rel=1e-4)
    assert updates == [1] * 16
    # What the other hook reads of the loop is read through this one.
    assert fit.FRAMEWORK.given.kind == "arrays"


def test_of_several_updates_in_a_call_the_mean_is_known(asked, tmp_path):
    # The means of batches by their samples.
    singles = said()[:4]
    model(steps_per_execution=2).fit(X, Y, batch_size=8, shuffle=False, verbose=0)

    found, updates = recorded(asked, tmp_path)
    assert found[8:] == pytest.approx([(singles[0] + singles[1]) / 2, (8 * singles[2] + 6 * singles[3]) / 14], rel=1e-4)
    assert updates[8:] == [2, 2]


def test_what_replicas_add_up_together_is_read(asked, tmp_path):
    logged: list[float] = []
    told = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: logged.append(float(logs["loss"])))
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        trained = model()
    trained.fit(X, Y, batch_size=30, epochs=3, verbose=0, callbacks=[told])

    assert recorded(asked, tmp_path)[0] == pytest.approx(logged, rel=1e-6)
    assert len(logged) == 3


class OwnMetrics(keras.Sequential):  # type: ignore[misc]
    def train_step(self, data: Any) -> Any:
        x, y = data[:2]
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(x, training=True) - y) ** 2)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"my_loss": loss}


def test_a_step_with_metrics_of_its_own_says_once_that_its_losses_are_not_known(asked, tmp_path):
    model(OwnMetrics).fit(X, Y, batch_size=8, epochs=4, verbose=0)

    assert recorded(asked, tmp_path)[1] == [0] * 16
    (note,) = only(tmp_path / "recording").noted(UNSEEN)
    assert (note["updates"], note["framework"]) == (ENOUGH, "keras")


class Spoils(keras.callbacks.Callback):  # type: ignore[misc]
    """Asks for the loss of each step, and puts the weights back that were there before the third."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._loss = recorder.last_loss

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._loss.want()
        if batch == 2:
            self._weights = self.model.get_weights()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == 2:
            self.model.set_weights(self._weights)


def test_an_experiment_hears_whether_the_loss_of_a_step_is_finite_and_that_it_is_again(watching, tmp_path, monkeypatch):
    bad, heard, take = Y.copy(), [], watching.last_loss.take
    bad[20] = float("nan")

    def taken() -> Any:
        answer = take()
        heard.append(None if answer is None else answer())
        return answer

    monkeypatch.setattr(watching.last_loss, "take", taken)
    model().fit(X, bad, batch_size=8, shuffle=False, verbose=0, callbacks=[Spoils(watching)])

    # From the second step on it is known where a step ends. What is added up stays no number until the epoch ends: then the weights tell.
    assert heard == [True, False, True]
    assert recorded(watching, tmp_path)[0] == []


def test_nothing_is_hooked_where_nobody_asks(tmp_path):
    recorder, before = Recorder(make_folder(tmp_path / "recording"), level=0), methods()
    undos = [hook.install(recorder) for hook in losses.HOOKS]

    assert methods() == before
    all_of(undos)()
    recorder.stop("exit")
