"""Errors of the script's own pipeline while a lever exchanges the call that trains: they are the script's, as they are without it."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="needs keras and tensorflow-cpu")
keras: Any = pytest.importorskip("keras", reason="needs keras and tensorflow-cpu")
if keras.config.backend() != "tensorflow":
    pytest.skip("Keras computes with another framework here", allow_module_level=True)

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from recorded import only  # noqa: E402
from slowstep.frameworks.keras.inside.levers import jit_compile, mixed_precision, run_eagerly_off, steps_per_execution  # noqa: E402
from slowstep.frameworks.tensorflow.inside._input.own_errors import is_of_input  # noqa: E402
from slowstep.record.experiment.lever import OWN_ERROR, LeverSpec, NotApplicable  # noqa: E402
from slowstep.record.experiment.training import Training  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")]

BATCHES, FAILS, ON = 40, 24, 16


def of_tensorflow(number: Any) -> Any:
    """Fails at one of them."""
    with tf.control_dependencies([tf.debugging.assert_none_equal(number, tf.constant(FAILS, tf.int64), message="no such sample")]):
        return tf.ones([4, 8]), tf.ones([4, 1])


def of_python(number: Any) -> Any:
    """Does so in Python."""

    def checked(one: Any) -> Any:
        if one == FAILS:
            raise ValueError("no such sample")
        return np.float32(1)

    one = tf.ensure_shape(tf.numpy_function(checked, [number], tf.float32), [])
    return one * tf.ones([4, 8]), tf.ones([4, 1])


class Switches(keras.callbacks.Callback):  # type: ignore[misc]
    """Has a lever made ready, and switches it on for good; `refused` is why it was given up."""

    def __init__(self, recorder: Recorder, lever: ModuleType) -> None:
        super().__init__()
        self._training, self._lever = Training(recorder), lever
        self.calls = self.last = 0
        self.is_on = False
        self.refused: str | None = None
        self.change: Any = None

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.calls, self.last = self.calls + 1, batch
        try:
            self._act()
        except NotApplicable as error:
            self.refused = str(error)

    def _act(self) -> None:
        if self.calls == 1:
            self.change = self._lever.prepare(self._training, LeverSpec(name="any", value="2"))
        elif self.is_on:
            self.change.each_step()
        elif self.change.ready() and self.last >= ON:
            self.change.on()
            self.is_on = True


def fitted(callbacks: list[Any], sample: Callable[[Any], Any], **compiled: Any) -> None:
    keras.utils.set_random_seed(0)
    made = keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(1)])
    made.compile("sgd", "mse", **compiled)
    made.fit(tf.data.Dataset.range(BATCHES).map(sample), verbose=0, shuffle=False, callbacks=callbacks)


@pytest.mark.parametrize("sample", [of_tensorflow, of_python])
@pytest.mark.parametrize(
    ("lever", "compiled"),
    [(jit_compile, {}), (mixed_precision, {}), (steps_per_execution, {}), (run_eagerly_off, {"run_eagerly": True})],
    ids=["jit-compile", "mixed-precision", "steps-per-execution", "run-eagerly-off"],
)
def test_what_the_pipeline_raises_ends_the_training_as_it_is_and_is_not_the_lever_s(recorder, lever, compiled, sample):
    with pytest.raises(tf.errors.OpError, match="no such sample") as own:
        fitted([], sample, **compiled)
    switches = Switches(recorder, lever)
    with pytest.raises(tf.errors.OpError, match="no such sample") as raised:
        fitted([switches], sample, **compiled)

    assert switches.is_on
    assert type(raised.value) is type(own.value)
    # Not one batch more was trained on; of a call of two nobody was told.
    assert switches.last == FAILS - 1 - (lever is steps_per_execution)
    switches.change.each_step()
    assert switches.refused is None
    recorder.stop("exit")
    noted = only(recorder.folder).noted(OWN_ERROR)
    assert [note["error"] for note in noted] == [type(own.value).__name__]


@pytest.mark.parametrize(
    ("message", "is_input"),
    [
        ("no such sample\n\t [[{{node Assert}}]]\n\t [[IteratorGetNext]] [Op:__inference_multi_step_on_iterator_1]", True),
        ("no such sample\n\t [[{{node IteratorGetNext}}]] [Op:__inference_multi_step_on_iterator_1]", True),
        ("no such sample\n\t [[{{node while/body/_1/while/IteratorGetNextAsOptional_1}}]] [Op:__inference_f_1]", True),
        (
            "{{function_node __wrapped__IteratorGetNext_output_types_1_device_}} no such sample [Op:IteratorGetNext] name: ",
            True,
        ),
        ("Incompatible shapes\n\t [[{{node MatMul}}]] [Op:__inference_multi_step_on_iterator_1]", False),
        ("Out of memory\n\t [[{{node MatMul}}]]\n\t [[IteratorGetNext/_12]] [Op:__inference_f_1]", False),
        ("Detected at node IteratorGetNext defined at\n\t [[{{node MatMul}}]] [Op:__inference_f_1]", False),
    ],
)
def test_it_is_told_by_the_nodes_that_have_passed_it_on(message, is_input):
    assert is_of_input(tf.errors.InvalidArgumentError(None, None, message)) is is_input
    assert not is_of_input(tf.errors.OutOfRangeError(None, None, message))
    assert not is_of_input(ValueError(message))
