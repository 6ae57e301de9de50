"""What levers say of a `fit` whose batches are divided among replicas."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

tf: Any = pytest.importorskip("tensorflow", reason="needs keras and tensorflow-cpu")
keras: Any = pytest.importorskip("keras", reason="needs keras and tensorflow-cpu")
if keras.config.backend() != "tensorflow":
    pytest.skip("Keras computes with another framework here", allow_module_level=True)

from recorded import make_folder  # noqa: E402
from slowstep.frameworks.keras.inside import fit  # noqa: E402
from slowstep.frameworks.keras.inside.levers import batch_size, cache, interleave  # noqa: E402
from slowstep.frameworks.tensorflow.inside._input import changing  # noqa: E402
from slowstep.record.experiment.lever import LeverSpec, NotApplicable  # noqa: E402
from slowstep.record.experiment.training import Training  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402

pytestmark = pytest.mark.slow

BATCHES, REPLICAS = 6, 2


class Asks(keras.callbacks.Callback):  # type: ignore[misc]
    """Asks for each lever, and keeps why it is refused."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._training = Training(recorder)
        self.calls = 0
        self.refused: dict[str, str] = {}

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.calls += 1
        for lever in (batch_size, cache, interleave):
            try:
                lever.prepare(self._training, LeverSpec(name="any", value="16"))
            except NotApplicable as error:
                self.refused[lever.__name__.rpartition(".")[2]] = str(error)


def fitted_by_replicas(folder: str) -> tuple[int, dict[str, str]]:
    """A `fit` on two logical processors. For a process of its own: they are set before TensorFlow starts."""
    device = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(device, [tf.config.LogicalDeviceConfiguration()] * REPLICAS)
    recorder = Recorder(folder, level=0)
    recorder.experiment = True
    undo = fit.HOOK.install(recorder)
    asks = Asks(recorder)
    try:
        with tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(REPLICAS)]).scope():
            made = keras.Sequential([keras.layers.Dense(1)])
            made.compile("sgd", "mse")
        data = tf.data.Dataset.range(8 * BATCHES).map(lambda number: (tf.ones([4]), tf.ones([1]))).batch(8)
        made.fit(data, verbose=0, callbacks=[asks])
    finally:
        undo()
        recorder.stop("exit")
    return asks.calls, asks.refused


def test_each_says_plainly_that_batches_are_divided(tmp_path):
    folder = make_folder(tmp_path / "recording")
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as processes:
        calls, refused = processes.submit(fitted_by_replicas, folder).result()

    assert calls == BATCHES
    assert refused.pop("batch_size") == batch_size.DIVIDED.format(replicas=REPLICAS)
    assert set(refused) == {"cache", "interleave"}
    assert all(why.startswith(changing.DIVIDED.partition("{")[0]) for why in refused.values())
