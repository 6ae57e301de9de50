"""Several steps of Keras' fit in one call, switched in running calls of `fit`."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="needs keras and tensorflow-cpu")
keras: Any = pytest.importorskip("keras", reason="needs keras and tensorflow-cpu")
if keras.config.backend() != "tensorflow":
    pytest.skip("Keras computes with another framework here", allow_module_level=True)

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from slowstep.frameworks.keras.inside import (  # noqa: E402
    _epochs,
    _grouped_function,
)
from slowstep.frameworks.keras.inside.levers import steps_per_execution as lever  # noqa: E402
from slowstep.record.experiment.lever import LeverSpec, NotApplicable  # noqa: E402
from slowstep.record.experiment.training import Training  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")]

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(160, 8)).astype("f"), RANDOM.normal(size=(160, 1)).astype("f")
# Calls after which the lever is prepared, switched on, and switched off.
ASKED, ON, OFF = 2, 8, 12


class Follows(keras.callbacks.Callback):  # type: ignore[misc]
    """Notes the numbers of the batches of each call, and does something after so many calls."""

    def __init__(self, acts: dict[int, Callable[[], object]] | None = None) -> None:
        super().__init__()
        self.calls: list[tuple[int, int]] = []
        self._acts, self._begun = acts or {}, -1

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._begun = batch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.calls.append((self._begun, batch))
        self._acts.get(len(self.calls), lambda: None)()


class Levered:
    """The lever, made ready, switched on and off by calls that were made."""

    def __init__(self, recorder: Recorder, steps: int = 4) -> None:
        self.training, self._steps = Training(recorder), steps
        self.change: Any = None
        self.told: list[int] = []
        self.ready: list[bool] = []

    def prepare(self) -> None:
        self.change = lever.IMPLEMENTATION.prepare(self.training, LeverSpec(name="steps-per-execution", value=str(self._steps)))

    def acts(self, on: int = ON, off: int = OFF) -> dict[int, Callable[[], object]]:
        looking: dict[int, Callable[[], object]] = dict.fromkeys(range(ASKED + 1, on), lambda: self.ready.append(self.change.ready()))
        counting: dict[int, Callable[[], object]] = dict.fromkeys(range(on + 1, off), self.count)
        return {ASKED: self.prepare, **looking, on: lambda: self.change.on(), **counting, off: self.end}

    def count(self) -> None:
        self.change.each_step()
        call, self.training.one_call = self.training.one_call, None
        self.told.append(0 if call is None else call.steps)

    def end(self) -> None:
        self.count()
        self.change.off()
        self.change.remove()


def model(kind: type[Any] = keras.Sequential, **compiled: Any) -> Any:
    keras.utils.set_random_seed(0)
    made = kind([keras.layers.Dense(4, activation="relu"), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
    made.compile(keras.optimizers.Adam(0.01), "mse", **compiled)
    return made


def trained(acts: dict[int, Callable[[], object]], x: Any = X, y: Any = Y, *, made: Any = None, **given: Any) -> tuple[Any, Follows]:
    made, follows = made or model(), Follows(acts)
    batches = {} if y is None else {"batch_size": 4}
    made.fit(x, y, verbose=0, shuffle=False, callbacks=[follows], **batches, **given)
    return made, follows


def same_weights(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one.get_weights(), other.get_weights(), strict=True))


def test_batches_are_trained_on_by_fours_and_the_updates_are_the_same(recorder):
    levered = Levered(recorder)
    plain, _ = trained({})
    switched, follows = trained(levered.acts())

    # Two calls of four batches before it is ready, four while it is on, and one by one before, between and after.
    sizes = [last - first + 1 for first, last in follows.calls]
    assert sizes == [1, 1, 4, 4, 1, 1, 1, 1, 4, 4, 4, 4] + [1] * 10
    assert [first for first, _ in follows.calls[1:]] == [last + 1 for _, last in follows.calls[:-1]]
    assert levered.ready == [False, True, True, True, True]
    assert levered.told == [4] * 4
    assert levered.change.effect == 4
    assert same_weights(plain, switched)
    assert int(switched.optimizer.iterations) == 40


def test_everything_is_as_it_was_afterwards(recorder):
    levered, seen = Levered(recorder), []
    acts = levered.acts()
    made = model()
    before = acts[ASKED]
    acts[ASKED] = lambda: (seen.append(made.train_function), before())
    acts[OFF + 1] = lambda: seen.append((made.train_function, vars(_epochs.epochs_of(made)).get("_enumerate_iterator")))
    trained(acts, made=made)

    assert seen[1] == (seen[0], None)
    assert made.steps_per_execution == 1


def test_the_end_of_the_data_ends_the_last_call_of_an_epoch(recorder):
    levered = Levered(recorder)
    plain, _ = trained({}, X[:128], Y[:128], epochs=3)
    switched, follows = trained(levered.acts(off=16), X[:128], Y[:128], epochs=3)

    # 32 batches in each: two are left over.
    assert follows.calls[8:16] == [(14, 17), (18, 21), (22, 25), (26, 29), (30, 31), (0, 3), (4, 7), (8, 11)]
    assert same_weights(plain, switched)


def test_an_epoch_that_ends_before_its_data_is_no_longer_than_was_asked_for(recorder):
    def endless() -> Any:
        return tf.data.Dataset.from_tensor_slices((X, Y)).batch(4).repeat()

    levered = Levered(recorder)
    plain, _ = trained({}, endless(), None, epochs=3, steps_per_epoch=18)
    switched, follows = trained(levered.acts(off=14), endless(), None, epochs=3, steps_per_epoch=18)

    assert follows.calls[8:14] == [(14, 17), (0, 3), (4, 7), (8, 11), (12, 15), (16, 16)]
    assert int(switched.optimizer.iterations) == 54
    assert same_weights(plain, switched)


def test_another_call_of_fit_is_followed(recorder):
    levered = Levered(recorder)
    follows, made = Follows(levered.acts(off=13)), model()
    for _ in range(3):
        made.fit(X[:64], Y[:64], batch_size=4, verbose=0, callbacks=[follows])

    # Of the next call the first batch comes alone: then it is known.
    assert follows.calls[8:13] == [(14, 15), (0, 0), (1, 4), (5, 8), (9, 12)]
    assert int(made.optimizer.iterations) == 48


def test_of_a_script_that_makes_several_itself_the_steps_are_its_calls(recorder):
    levered = Levered(recorder, 8)
    _, follows = trained(levered.acts(on=6, off=8), epochs=3, made=model(steps_per_execution=2))

    assert follows.calls[6:8] == [(24, 31), (32, 39)]
    assert levered.told == [4, 4]


def test_a_step_that_cannot_be_traced_so_is_made_one_by_one(recorder):
    class OneByOne(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            if self.steps_per_execution > 1:
                raise TypeError("for one batch at a time")
            return super().train_step(data)

    levered, found = Levered(recorder), []

    def look() -> None:
        with pytest.raises(NotApplicable):
            levered.change.ready()
        found.append(True)
        levered.change.remove()

    switched, follows = trained({ASKED: levered.prepare, 3: look}, made=model(OneByOne))

    assert found == [True]
    assert follows.calls[2] == (2, 5)
    assert int(switched.optimizer.iterations) == 40


def test_data_that_end_among_batches_made_one_by_one_end_that_call(recorder):
    class OneByOne(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            if self.steps_per_execution > 1:
                raise TypeError("for one batch at a time")
            return super().train_step(data)

    signature = (tf.TensorSpec((4, 8)), tf.TensorSpec((4, 1)))
    data = tf.data.Dataset.from_generator(lambda: iter([(X[:4], Y[:4])] * 5), output_signature=signature)
    levered = Levered(recorder)
    with pytest.warns(UserWarning, match="ran out of data"):
        _, follows = trained({ASKED: levered.prepare}, data, None, made=model(OneByOne), steps_per_epoch=8)

    assert follows.calls == [(0, 0), (1, 1), (2, 5)]
    assert levered.training.one_call.steps == 3


def test_where_the_epochs_cannot_be_grouped_the_training_goes_on(recorder, monkeypatch):
    class Missing:
        def __init__(self, *_: Any) -> None:
            raise AttributeError("_epoch_iterator")

    monkeypatch.setattr(_grouped_function, "GroupedEpochs", Missing)
    levered, made, seen = Levered(recorder), model(), []

    def ask() -> None:
        before = made.train_function
        with pytest.raises(AttributeError):
            levered.prepare()
        seen.append(made.train_function is before)

    trained({ASKED: ask}, made=made)

    assert seen == [True]
    assert int(made.optimizer.iterations) == 40


def test_a_fault_in_what_is_asked_before_a_call_gives_the_lever_up(recorder):
    levered, found = Levered(recorder), []

    def fails() -> bool:
        raise KeyError

    def prepare() -> None:
        levered.prepare()
        levered.change._is_wanted = fails

    def look() -> None:
        with pytest.raises(NotApplicable, match="KeyError"):
            levered.change.ready()
        found.append(True)
        levered.change.remove()

    switched, _ = trained({ASKED: prepare, 3: look})

    assert found == [True]
    assert int(switched.optimizer.iterations) == 40


def test_a_function_that_the_script_puts_around_ours_goes_on_when_the_lever_is_off(recorder):
    levered, made, around = Levered(recorder), model(), []

    def wrap() -> None:
        ours = made.train_function

        def wrapped(iterator: Any) -> Any:
            around.append(iterator)
            return ours(iterator)

        made.train_function = wrapped

    plain, _ = trained({})
    acts = levered.acts(off=10)
    acts |= {9: wrap, 10: lambda: levered.change.off(), 13: lambda: levered.change.on(), 15: levered.end}
    _, follows = trained(acts, made=made)

    assert [last - first + 1 for first, last in follows.calls[8:16]] == [4, 4, 1, 1, 1, 4, 4, 1]
    # All but those of the lever that was switched on once more.
    assert len(around) == len(follows.calls) - 11
    assert same_weights(plain, made)


def test_what_an_operation_raises_is_passed_on(recorder, monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)

    class Breaks(keras.Sequential):
        def train_step(self, data: Any) -> Any:
            with tf.control_dependencies([tf.debugging.assert_less(self.optimizer.iterations, tf.constant(8, tf.int64))]):
                return super().train_step(data)

    levered = Levered(recorder)
    with pytest.raises(tf.errors.InvalidArgumentError):
        trained({ASKED: levered.prepare}, made=model(Breaks))

    # Our frames are not printed.
    assert sys.excepthook is not sys.__excepthook__


@pytest.mark.parametrize(
    ("compiled", "given", "steps", "why"),
    [
        ({"run_eagerly": True}, {}, 4, lever.EAGER),
        ({"steps_per_execution": 3}, {}, 4, lever.OWN.format(own=3)),
        ({"steps_per_execution": 4}, {}, 4, lever.OWN.format(own=4)),
        ({}, {"steps_per_epoch": 8}, 16, _grouped_function.SHORT.format(length=8, steps=16)),
    ],
)
def test_it_has_no_meaning_where(recorder, compiled, given, steps, why):
    levered, said = Levered(recorder, steps), []

    def ask() -> None:
        with pytest.raises(NotApplicable) as refused:
            levered.prepare()
        said.append(str(refused.value))

    trained({1: ask}, made=model(**compiled), **given)

    assert said == [why]


def test_it_has_none_where_all_functions_run_eagerly(recorder):
    levered, said = Levered(recorder), []

    def ask() -> None:
        with pytest.raises(NotApplicable) as refused:
            levered.prepare()
        said.append(str(refused.value))

    tf.config.run_functions_eagerly(True)
    try:
        with warnings.catch_warnings():
            # That functions of tf.data are traced all the same.
            warnings.simplefilter("ignore", UserWarning)
            trained({1: ask}, X[:16], Y[:16])
    finally:
        tf.config.run_functions_eagerly(False)

    assert said == [lever.EAGER]


def test_without_a_fit_it_has_none(recorder):
    with pytest.raises(NotApplicable, match="no fit"):
        Levered(recorder).prepare()


@pytest.mark.parametrize("value", [None, "1", "many"])
def test_it_takes_a_number_of_at_least_two(value):
    with pytest.raises(ValueError, match="at least 2"):
        lever.read_steps(LeverSpec(name="steps-per-execution", value=value))
