"""Batches of Keras' fit that are joined, switched in running calls of `fit`."""

from __future__ import annotations

import math
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
from slowstep.frameworks.keras.inside import _batch_sizes, fit  # noqa: E402
from slowstep.frameworks.keras.inside.levers import batch_size as lever  # noqa: E402
from slowstep.frameworks.tensorflow.inside import fetches, functions  # noqa: E402
from slowstep.levers._input.size_peaks import PEAK_STEPS  # noqa: E402
from slowstep.record.experiment.lever import LeverSpec, NotApplicable  # noqa: E402
from slowstep.record.experiment.training import Training  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")]

RANDOM = np.random.default_rng(0)
OWN, BATCHES = 4, 40
X, Y = RANDOM.normal(size=(OWN * BATCHES, 8)).astype("f"), RANDOM.normal(size=(OWN * BATCHES, 1)).astype("f")
# Calls after which it is prepared; asked whether it is ready, until two calls were joined; switched on and off.
ASKED = 1
READY = ASKED + 1 + PEAK_STEPS + 2
ON, OFF = READY + 2, READY + 5


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    recorder.experiment = True
    recorder.fault = lambda error: pytest.fail(repr(error))  # type: ignore[method-assign]
    undos = [each.HOOK.install(recorder) for each in (fit, fetches, functions)]
    yield recorder
    for undo in reversed(undos):
        undo()
    recorder.stop("exit")


class Acts(keras.callbacks.Callback):  # type: ignore[misc]
    """Notes the numbers of the batches of each call, and has the lever act after so many calls."""

    def __init__(self, recorder: Recorder, size: int = 2 * OWN) -> None:
        super().__init__()
        self._training, self._spec = Training(recorder), LeverSpec(name="batch-size", value=str(size))
        self.calls: list[tuple[int, int]] = []
        self.refused: str | None = None
        self.change: Any = None
        self._begun = -1

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._begun = batch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.calls.append((self._begun, batch))
        try:
            self._act(len(self.calls))
        except NotApplicable as error:
            self.refused = self.refused or str(error)

    def _act(self, calls: int) -> None:
        if calls == ASKED:
            self.change = lever.prepare(self._training, self._spec)
        elif self.change is not None and self.refused is None:
            if calls < ON:
                self.change.ready()
            elif calls < OFF:
                self.change.on() if calls == ON else self.change.each_step()
            elif calls == OFF:
                self.change.off()
                self.change.remove()


def model(**compiled: Any) -> Any:
    keras.utils.set_random_seed(0)
    made = keras.Sequential([keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)])
    made.compile(keras.optimizers.SGD(0.01), "mse", **compiled)
    return made


class Batches(keras.utils.PyDataset):  # type: ignore[misc]
    """The same samples."""

    def __len__(self) -> int:
        return BATCHES

    def __getitem__(self, number: int) -> Any:
        return X[number * OWN : (number + 1) * OWN], Y[number * OWN : (number + 1) * OWN]


def dataset(**options: Any) -> Any:
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(OWN, **options)


def trained_by_hand(calls: list[tuple[int, int]], x: Any = X, y: Any = Y) -> Any:
    made = model()
    for first, last in calls:
        made.train_on_batch(x[first * OWN : (last + 1) * OWN], y[first * OWN : (last + 1) * OWN])
    return made


@pytest.mark.parametrize(
    "given",
    [lambda: {"x": X, "y": Y, "batch_size": OWN}, lambda: {"x": Batches()}, lambda: {"x": dataset(drop_remainder=True)}],
    ids=["arrays", "PyDataset", "tf.data of a fixed size"],
)
def test_two_batches_make_one_step_and_none_is_left_out(recorder, given):
    acts, made = Acts(recorder), model()
    made.fit(**given(), verbose=0, shuffle=False, callbacks=[acts])

    joined = [last - first + 1 for first, last in acts.calls]
    assert joined[:ON] == [1] * (ASKED + 1 + PEAK_STEPS) + [2, 2] + [1] * (ON - READY)
    assert joined[ON:OFF] == [2] * (OFF - ON)
    assert set(joined[OFF:]) == {1}
    assert sum(joined) == BATCHES
    assert acts.change.effect == OFF - ON
    assert acts.change.facts()["own_batch_size"] == OWN
    # One update for each call.
    assert int(made.optimizer.iterations) == len(acts.calls)
    # The joined call is told of by Keras alone.
    recorder.stop("exit")
    assert len({update.a for update in only(recorder.folder).of("UPDATE")}) == 1
    by_hand = trained_by_hand(acts.calls)
    for one, other in zip(made.get_weights(), by_hand.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


# One batch more, and one that is smaller.
WITH_REST = BATCHES + 2
X_REST, Y_REST = (np.concatenate([of, of[: 2 * OWN - 1]]) for of in (X, Y))


def of_unknown_length(batches_asked: int = WITH_REST) -> Any:
    def batches() -> Iterator[Any]:
        for begin in range(0, OWN * batches_asked, OWN):
            yield X_REST[begin : begin + OWN], Y_REST[begin : begin + OWN]

    signature = (tf.TensorSpec((None, 8)), tf.TensorSpec((None, 1)))
    return tf.data.Dataset.from_generator(batches, output_signature=signature)


class Stays(Acts):
    """Switches the lever on as soon as it is ready, and leaves it on."""

    def _act(self, calls: int) -> None:
        if self.change is None:
            super()._act(calls)
        elif not self.is_on:
            self.is_on = self.change.ready()
            if self.is_on:
                self.change.on()

    is_on = False


@pytest.mark.filterwarnings("ignore:Your input ran out of data:UserWarning")
@pytest.mark.parametrize("times", [3, 4], ids=["smaller last batch among those joined", "a rest of two"])
@pytest.mark.parametrize(
    ("given", "length"),
    # Of an unknown length Keras counts the fetch that finds nothing as well.
    [(lambda: tf.data.Dataset.from_tensor_slices((X_REST, Y_REST)).batch(OWN), WITH_REST), (of_unknown_length, WITH_REST + 1)],
    ids=["known length", "unknown length"],
)
def test_what_is_left_of_an_epoch_is_trained_on_as_it_was(recorder, given, length, times):
    acts, made = Stays(recorder, size=times * OWN), model()
    made.fit(given(), verbose=0, shuffle=False, epochs=3, callbacks=[acts])

    assert acts.refused is None
    # The last epoch; callbacks are told once of the rest as well.
    last = acts.calls[-math.ceil(WITH_REST / times) :]
    assert last == [(begin, min(begin + times, length) - 1) for begin in range(0, WITH_REST, times)]
    assert acts.change.effect >= WITH_REST // times
    by_hand = trained_by_hand([(begin, end) for call in acts.calls for begin, end in trained_in(call, times)], X_REST, Y_REST)
    for one, other in zip(made.get_weights(), by_hand.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("ignore:Your input ran out of data:UserWarning")
def test_no_batch_is_lost_where_a_group_would_end_with_the_fetch_that_finds_nothing(recorder):
    acts, made, count = Stays(recorder), model(), BATCHES + 1
    made.fit(of_unknown_length(count), verbose=0, shuffle=False, epochs=3, callbacks=[acts])

    assert acts.change.effect >= BATCHES // 2
    assert acts.calls[-1] == (BATCHES, BATCHES + 1)
    by_hand = trained_by_hand([(begin, min(end, BATCHES)) for begin, end in acts.calls], X_REST, Y_REST)
    for one, other in zip(made.get_weights(), by_hand.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def without_weights() -> Iterator[Any]:
    """Says that no sample has a weight: Keras then hands over an `Optional` with nothing in it."""
    for number in range(BATCHES):
        yield *Batches()[number], None


def of_sparse_samples() -> Any:
    samples = tf.sparse.from_dense(np.where(X > 0, X, 0))
    return tf.data.Dataset.from_tensor_slices((samples, Y)).batch(OWN)


@pytest.mark.parametrize(
    ("given", "x", "kind"),
    [(without_weights, X, tf.experimental.Optional), (of_sparse_samples, np.where(X > 0, X, 0), tf.SparseTensor)],
    ids=["nothing as weights", "sparse samples"],
)
def test_what_is_no_plain_tensor_is_joined_as_well(recorder, monkeypatch, given, x, kind):
    joined, kinds = lever._joined, set()
    monkeypatch.setattr(lever, "_joined", lambda *parts: kinds.add(type(parts[0])) or joined(*parts))
    acts, made = Acts(recorder), model()
    # With steps_per_epoch the length of a generator is known.
    made.fit(given(), verbose=0, shuffle=False, steps_per_epoch=BATCHES, callbacks=[acts])

    assert acts.refused is None
    assert any(issubclass(each, kind) for each in kinds)
    assert acts.change.effect == OFF - ON
    by_hand = trained_by_hand(acts.calls, x)
    for one, other in zip(made.get_weights(), by_hand.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def trained_in(call: tuple[int, int], times: int) -> list[tuple[int, int]]:
    """The updates of a call for these batches, as their first and last."""
    first, last = call
    return [call] if last - first + 1 == times else [(batch, batch) for batch in range(first, min(last + 1, WITH_REST))]


@pytest.mark.parametrize(
    ("size", "why"),
    [(OWN + 1, lever.NO_MULTIPLE.format(own=OWN)), (OWN // 2, lever.NO_MULTIPLE.format(own=OWN)), (OWN, lever.SAME.format(own=OWN))],
)
def test_sizes_that_are_no_multiple_are_refused(recorder, size, why):
    acts = Acts(recorder, size)
    model().fit(X, Y, batch_size=OWN, verbose=0, callbacks=[acts])

    assert acts.refused == why


@pytest.mark.parametrize(
    ("compiled", "why"), [({"run_eagerly": True}, lever.EAGER), ({"steps_per_execution": 2}, lever.TOGETHER.format(own=2))]
)
def test_it_has_no_meaning_where(recorder, compiled, why):
    acts = Acts(recorder)
    model(**compiled).fit(X, Y, batch_size=OWN, verbose=0, callbacks=[acts])

    assert acts.refused == why


def test_a_model_of_a_fixed_batch_size_goes_on_as_it_was(recorder):
    made = keras.Sequential([keras.Input(batch_shape=(OWN, 8)), keras.layers.Reshape((8,)), Fixed(), keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    acts = Acts(recorder)
    made.fit(X, Y, batch_size=OWN, verbose=0, callbacks=[acts])

    assert acts.refused is not None
    assert acts.refused.startswith(lever.NOT_JOINED.partition("(")[0])
    assert int(made.optimizer.iterations) == BATCHES


class Padded(keras.utils.PyDataset):  # type: ignore[misc]
    """Sequences of many lengths, those of each batch padded to the longest of it."""

    def __len__(self) -> int:
        return BATCHES

    def __getitem__(self, number: int) -> Any:
        return np.ones((OWN, 3 + number % 7, 2), "f"), np.ones((OWN, 1), "f")


class OutOfMemory(keras.layers.Layer):  # type: ignore[misc]
    """Has memory for so many samples."""

    def call(self, samples: Any) -> Any:
        checked = tf.numpy_function(self.checked, [samples], samples.dtype, stateful=True)
        return samples + 0 * tf.reshape(checked, tf.shape(samples))

    @staticmethod
    def checked(samples: Any) -> Any:
        if len(samples) > OWN:
            raise MemoryError
        return samples


@pytest.mark.parametrize(
    ("layer", "given", "why"),
    [
        (keras.layers.GlobalAveragePooling1D, {"x": Padded()}, lever.SHAPES),
        (OutOfMemory, {"x": Batches()}, lever.NO_MEMORY.format(size=2 * OWN, error="ResourceExhaustedError")),
    ],
    ids=["other shapes", "memory"],
)
@pytest.mark.filterwarnings("ignore:Your input ran out of data:UserWarning")
def test_what_fails_after_batches_were_fetched_says_why_and_that_these_are_lost(recorder, layer, given, why):
    made = keras.Sequential([layer(), keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    acts = Acts(recorder)
    made.fit(**given, verbose=0, shuffle=False, callbacks=[acts])

    assert acts.refused == why + lever.SHORTER.format(batches=2)
    # Numbered from 0.
    assert acts.calls[-1][1] == BATCHES - 3


class Fixed(keras.layers.Layer):  # type: ignore[misc]
    """Has the size of a batch written into it."""

    def call(self, samples: Any) -> Any:
        return tf.reshape(samples, [OWN, 8])


def test_batches_of_many_sizes_are_refused(recorder):
    sizes = RANDOM.integers(1, 9, BATCHES)
    batches = [(np.ones((size, 8), "f"), np.ones((size, 1), "f")) for size in sizes]
    signature = (tf.TensorSpec((None, 8)), tf.TensorSpec((None, 1)))
    acts = Acts(recorder)
    data = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=signature)
    model().fit(data.apply(tf.data.experimental.assert_cardinality(BATCHES)), verbose=0, shuffle=False, callbacks=[acts])

    assert acts.refused == _batch_sizes.VARY
