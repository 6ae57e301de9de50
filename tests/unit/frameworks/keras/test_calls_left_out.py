"""Checkpoints and validations of Keras' fit are left out while a lever is on, and made again once it is off."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="needs keras and tensorflow-cpu")
keras: Any = pytest.importorskip("keras", reason="needs keras and tensorflow-cpu")
if keras.config.backend() != "tensorflow":
    pytest.skip("Keras computes with another framework here", allow_module_level=True)

import numpy as np  # noqa: E402

from slowstep.frameworks.keras.inside.levers import checkpoint_off, validation_off  # noqa: E402
from slowstep.record.experiment.lever import LeverSpec, NotApplicable  # noqa: E402
from slowstep.record.experiment.training import Training  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402
from slowstep.record.writing import format as fmt  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")]

X, Y = np.ones((32, 8), "f"), np.ones((32, 1), "f")


def model() -> Any:
    made = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    return made


class InEpochs(keras.callbacks.Callback):  # type: ignore[misc]
    """Has a lever on in the second epoch and the third, of four."""

    def __init__(self, recorder: Recorder, lever: Any, every: int = 1) -> None:
        super().__init__()
        self._training, self._lever, self._every = Training(recorder), lever, every
        self.change: Any = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch == 1:
            self.change = self._lever.prepare(self._training, LeverSpec(name="lever", every=self._every))
            self.change.on()
        elif epoch == 3:
            self.change.off()
            self.change.remove()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.change is not None:
            self.change.each_step()


@pytest.mark.parametrize(("every", "written"), [(1, [0, 3]), (2, [0, 1, 3])])
def test_checkpoints_are_empty_files_while_it_is_on(recorder, tmp_path, every, written):
    in_epochs = InEpochs(recorder, checkpoint_off.IMPLEMENTATION, every)
    saves = [
        keras.callbacks.ModelCheckpoint(tmp_path / "model-{epoch}.keras"),
        keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.weights.h5", save_weights_only=True),
    ]
    model().fit(X, Y, batch_size=32, epochs=4, verbose=0, callbacks=[in_epochs, *saves])

    for names in ("model-{}.keras", "{}.weights.h5"):
        sizes = [(tmp_path / names.format(epoch + 1)).stat().st_size for epoch in range(4)]
        assert [epoch for epoch, size in enumerate(sizes) if size] == written
    assert in_epochs.change.effect == 2 * (4 - len(written))


def test_what_was_not_written_is_loaded_as_it_is_by_now(recorder, tmp_path):
    lever = checkpoint_off.IMPLEMENTATION.prepare(Training(recorder), LeverSpec(name="checkpoint-off"))
    trained, other = model(), model()

    lever.on()
    trained.save(tmp_path / "model.keras")
    trained.save_weights(tmp_path / "of.weights.h5")
    lever.off()

    assert keras.saving.load_model(tmp_path / "model.keras") is trained
    assert other.load_weights(tmp_path / "of.weights.h5") is None
    assert all(map(np.array_equal, other.get_weights(), trained.get_weights()))
    assert lever.facts()["loads"] == 2
    lever.remove()
    with pytest.raises(ValueError, match="File not found"):
        keras.saving.load_model(tmp_path / "model.keras")


def test_without_a_sandbox_no_checkpoint_is_left_out(recorder, monkeypatch):
    monkeypatch.setenv(fmt.ENV_UNPROTECTED, "1")

    with pytest.raises(NotApplicable):
        checkpoint_off.IMPLEMENTATION.prepare(Training(recorder), LeverSpec(name="checkpoint-off"))


def test_no_validation_begins_while_it_is_on(recorder):
    in_epochs, validated = InEpochs(recorder, validation_off.IMPLEMENTATION), []
    told = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: validated.append("val_loss" in logs))
    model().fit(X, Y, batch_size=8, epochs=4, verbose=0, validation_data=(X, Y), callbacks=[in_epochs, told])

    assert validated == [True, False, False, True]
    assert in_epochs.change.facts()["left_out"] == {"Model.evaluate": 2}


def test_where_no_fit_runs_validations_are_not_left_out(recorder):
    with pytest.raises(NotApplicable) as refused:
        validation_off.IMPLEMENTATION.prepare(Training(recorder), LeverSpec(name="validation-off"))

    assert str(refused.value) == validation_off.NO_FIT
