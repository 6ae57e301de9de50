"""Hooks on Keras and TensorFlow as installed: what they count and tell, that results are the same, and that nothing stays behind."""

from __future__ import annotations

import functools
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
from slowstep.frameworks.keras.inside import callbacks, evaluating, fit, jax_input  # noqa: E402
from slowstep.frameworks.tensorflow.inside import fetches, functions, tracing  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402
from slowstep.record.writing import format as contract  # noqa: E402

# Of Keras with the newest NumPy.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")]

X, Y = np.ones((64, 8), "f"), np.ones((64, 1), "f")
HOOKS = (callbacks, fit, jax_input, evaluating, fetches, functions, tracing)
Told = list[tuple[str, int]]


def patched() -> dict[str, Any]:
    """All that the hooks replace."""
    iterators = sys.modules["tensorflow.python.data.ops.iterator_ops"].OwnedIterator
    polymorphic = sys.modules["tensorflow.python.eager.polymorphic_function.polymorphic_function"].Function
    compilation = sys.modules["tensorflow.python.eager.polymorphic_function.tracing_compilation"]
    names = {
        iterators: ("__next__", "get_next", "get_next_as_optional"),
        polymorphic: ("__call__",),
        compilation: ("_create_concrete_function",),
        sys.modules["tensorflow.python.data.ops.dataset_autograph"]: ("_general_purpose_scan",),
        tf.GradientTape: ("gradient",),
        sys.modules[callbacks.MODULE].CallbackList: ("on_train_batch_begin", "on_train_batch_end", "on_epoch_end", "on_train_begin"),
        keras.Model: ("fit", "evaluate", "predict", "train_on_batch", "save", "save_weights"),
        keras.optimizers.Optimizer: ("apply",),
    }
    return {f"{owner.__name__}.{name}": getattr(owner, name) for owner, own in names.items() for name in own}


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    recorder.fault = lambda error: pytest.fail(repr(error))  # type: ignore[method-assign]
    before = patched()
    undos = [each.HOOK.install(recorder) for each in HOOKS]
    assert {name for name, found in patched().items() if found is before[name]} == {"Model.fit"}
    yield recorder
    for undo in reversed(undos):
        undo()
    assert patched() == before
    recorder.stop("exit")


@pytest.fixture
def told(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> Told:
    """What was told of as trained, with the number of its updates."""
    found: Told = []
    monkeypatch.setattr(fit.Updates, "called", lambda _, trained, *times: found.append((type(trained).__name__, *times[2:])))
    return found


def model(**compiled: Any) -> Any:
    keras.utils.set_random_seed(0)
    made = keras.Sequential([keras.layers.Dense(4), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
    made.compile("sgd", "mse", **compiled)
    return made


def counted(recorder: Recorder) -> int:
    return recorder.shared(fetches.CountedFetches).read()[0]


def test_each_batch_is_a_step_and_its_fetch_is_counted(recorder, told):
    model().fit(X, Y, batch_size=16, epochs=2, verbose=0)

    assert told == [("Sequential", 1)] * 8
    assert counted(recorder) == 8
    assert not fit.FRAMEWORK.waits_inside


@pytest.mark.parametrize("compiled", [{"jit_compile": True}, {"jit_compile": False}])
def test_batches_of_a_data_set_are_counted_whatever_compiles(recorder, told, compiled):
    model(**compiled).fit(tf.data.Dataset.from_tensor_slices((X, Y)).batch(16), verbose=0, shuffle=False)

    assert (len(told), counted(recorder)) == (4, 4)


def counted_samples(recorder: Recorder) -> int | None:
    return recorder.shared(fetches.CountedFetches).read()[2]


def unknown_size() -> Any:
    def give() -> Iterator[Any]:
        yield from ((X[:size], Y[:size]) for size in (16, 16, 5))

    form = tf.TensorSpec((None, 8)), tf.TensorSpec((None, 1))
    return tf.data.Dataset.from_generator(give, output_signature=form)


@pytest.mark.parametrize(
    ("given", "samples"),
    [
        (lambda: {"x": X[:60], "y": Y[:60], "batch_size": 16}, 60),
        (lambda: {"x": tf.data.Dataset.from_tensor_slices((X[:60], Y[:60])).batch(16)}, 60),
        (lambda: {"x": tf.data.Dataset.from_tensor_slices((X[:60], Y[:60])).batch(16, drop_remainder=True)}, 48),
        (lambda: {"x": unknown_size()}, 37),
    ],
    ids=["arrays", "a last batch", "one size", "sizes that change"],
)
def test_samples_of_all_batches_are_counted(recorder, told, given, samples):
    # Of a generator it is not known that this is all.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Your input ran out of data")
        model().fit(**given(), verbose=0, shuffle=False)

    assert counted_samples(recorder) == samples


def test_a_batch_with_nothing_in_the_place_of_its_weights_is_counted(recorder, told):
    model().fit(tf.data.Dataset.from_tensor_slices((X, Y)).batch(16).map(lambda x, y: (x, y, None)), verbose=0, shuffle=False)

    assert (len(told), counted(recorder), counted_samples(recorder)) == (4, 4, 64)


def test_what_cannot_be_counted_trains_and_is_not_said_to_be_counted(recorder, told, monkeypatch):
    def fails(*_: Any) -> None:
        raise AttributeError("of another version")

    faults: list[str] = []
    monkeypatch.setattr(recorder, "fault", lambda error: faults.append(str(error)))
    monkeypatch.setattr(fetches, "_samples_in", fails)

    model().fit(X, Y, batch_size=16, verbose=0)

    assert len(told) == 4
    assert set(faults) == {"of another version"}
    assert (counted(recorder), fit.FRAMEWORK.waits_inside) == (0, True)


class Rows(keras.utils.PyDataset):  # type: ignore[misc]
    def __len__(self) -> int:
        return 2

    def __getitem__(self, _: int) -> Any:
        return X[:16], Y[:16]


class Evaluates(keras.callbacks.Callback):  # type: ignore[misc]
    """On other input than is trained on."""

    def on_epoch_begin(self, *_: Any) -> None:
        self.model.evaluate(X, Y, verbose=0)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (lambda: {"x": X, "y": Y}, "arrays"),
        (lambda: {"x": Rows()}, "PyDataset"),
        (lambda: {"x": ((X[:16], Y[:16]) for _ in range(2)), "steps_per_epoch": 2}, "generator"),
        (lambda: {"x": tf.data.Dataset.from_tensor_slices((X, Y)).batch(16)}, "tf.data"),
    ],
    ids=["arrays", "PyDataset", "generator", "tf.data"],
)
@pytest.mark.parametrize("callbacks_of_its_own", [[], [Evaluates()]], ids=["alone", "beside a callback that evaluates arrays"])
def test_it_is_known_what_fit_was_given(recorder, given, kind, callbacks_of_its_own):
    model().fit(**given(), verbose=0, shuffle=False, callbacks=callbacks_of_its_own)

    assert fit.FRAMEWORK.given.kind == kind


def test_of_a_batch_that_may_have_no_dimension_it_is_not_known_how_many_samples_it_has(recorder):
    def step(iterator: Any) -> Any:
        return tf.reduce_sum(next(iterator))

    recorder.shared(fetches.CountedFetches).owner = lambda: step
    tf.function(step)(iter(tf.data.Dataset.from_generator(lambda: [np.float32(3.0)] * 2, output_signature=tf.TensorSpec(None))))

    assert recorder.shared(fetches.CountedFetches).read()[::2] == (1, None)


def test_what_another_framework_raises_is_not_raised_into_a_function_that_trains(recorder, told, monkeypatch):
    def fails() -> bool:
        raise AttributeError("of another version")

    faults: list[str] = []
    monkeypatch.setattr(recorder, "fault", lambda error: faults.append(str(error)))
    monkeypatch.setattr(functions, "told_by_others", lambda *_: (fails,))
    weight = tf.Variable(1.0)

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = weight * weight
        return tape.gradient(loss, weight)

    assert float(step()) == 2.0
    assert faults == ["of another version"]
    assert told == [("TrainedFunction",)]


@pytest.mark.parametrize("fetches", [True, False], ids=["it fetches itself", "it is given batches"])
def test_of_a_function_that_trains_and_fetches_its_batches_it_is_said_that_it_waits_inside(recorder, fetches):
    weight, batches = tf.Variable(1.0), iter(tf.data.Dataset.from_tensor_slices(X).batch(16))

    @tf.function
    def step(given: Any) -> None:
        x = next(given) if fetches else given
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x * weight)
        weight.assign_sub(0.01 * tape.gradient(loss, weight))

    @tf.function
    def look(given: Any) -> Any:
        return tf.reduce_sum(next(given))

    look(iter(tf.data.Dataset.from_tensor_slices(X).batch(16)))
    for _ in range(3):
        step(batches if fetches else next(batches))

    assert {note["framework"]: note["waits_inside"] for note in noted_facts(recorder)} == {"tensorflow": fetches}


def trains(x: Any, weight: Any) -> Any:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(x * weight)
    return tape.gradient(loss, weight)


def test_that_a_function_waits_inside_is_said_though_another_one_has_trained_before(recorder):
    weight, batches = tf.Variable(1.0), iter(tf.data.Dataset.from_tensor_slices(X).batch(16))

    tf.function(lambda: trains(X, weight))()
    tf.function(lambda: trains(next(batches), weight))()

    assert [note["waits_inside"] for note in noted_facts(recorder)] == [False, True]


def test_a_forked_child_knows_of_no_function_that_was_traced_before(recorder, told):
    weight, batches = tf.Variable(1.0), iter(tf.data.Dataset.from_tensor_slices(X).batch(16))
    step = tf.function(lambda: trains(next(batches), weight))
    step()
    assert (told, functions.FRAMEWORK.waits_inside) == ([("TrainedFunction",)], True)

    recorder.shared(functions.TracedFunctions).forget()
    step()

    assert (told, functions.FRAMEWORK.waits_inside) == ([("TrainedFunction",)], False)


def test_after_the_recording_nothing_is_said_of_what_a_fit_is_given(recorder, monkeypatch):
    said: list[str | None] = []
    monkeypatch.setattr(fit.Updates, "note_facts", lambda _: said.append(fit.FRAMEWORK.given.kind))
    made = model()
    made.fit(X, Y, batch_size=32, verbose=0)
    recorder.stop("steps")
    made.fit(tf.data.Dataset.from_tensor_slices((X, Y)).batch(32), verbose=0, shuffle=False)

    assert said == ["arrays"]
    assert fit.FRAMEWORK.given.kind is None


def test_a_function_that_trains_in_a_loop_over_a_data_set_waits_inside(recorder):
    weight, batches = tf.Variable(1.0), tf.data.Dataset.from_tensor_slices(X).batch(16)

    @tf.function
    def epoch() -> None:
        for x in batches:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(x * weight)
            weight.assign_sub(0.001 * tape.gradient(loss, weight))

    for _ in range(3):
        epoch()

    assert [note["waits_inside"] for note in noted_facts(recorder)] == [True]


def noted_operations(recorder: Recorder) -> list[dict[str, Any]]:
    recorder.stop("exit")
    return only(recorder.folder).noted("operations")


def test_of_a_fit_it_is_said_how_many_operations_a_call_runs(recorder):
    made = model(jit_compile=False)
    made.fit(X, Y, batch_size=16, verbose=0)
    keras.Sequential([keras.layers.Dense(1)]).predict(X, verbose=0)

    (note,) = noted_operations(recorder)
    # At least a product, its bias, its gradients and their updates of each of two layers; four variables, and what counts steps and losses.
    assert note["framework"] == "tensorflow"
    assert 20 < note["fewest"] == note["most"] < 200
    assert 41 <= note["elements"] <= 50


def test_of_one_whose_step_is_a_loop_it_is_not_known_how_many_run(recorder):
    model(steps_per_execution=2).fit(X, Y, batch_size=16, verbose=0)

    (note,) = noted_operations(recorder)
    assert note.get("most") is None


def test_functions_of_two_models_are_told_apart(recorder):
    made = model()
    made.fit(X[:60], Y[:60], batch_size=16, verbose=0)
    made.fit(X, Y, batch_size=16, verbose=0)
    model().fit(X, Y, batch_size=16, verbose=0)

    numbers = [note["function"] for note in noted_operations(recorder)]
    assert len(set(numbers)) == 2


def test_a_function_that_is_traced_at_each_step_is_one_and_counted_a_few_times_only(recorder):
    weight = tf.Variable(1.0)

    @tf.function
    def train(rate: float) -> None:
        with tf.GradientTape() as tape:
            loss = weight * weight
        weight.assign_sub(rate * tape.gradient(loss, weight))

    costs = []
    for step in range(20):
        train(0.001 * step)
        costs.append((recorder.once_ns, recorder.spent_ns))

    notes = noted_operations(recorder)
    assert {note["function"] for note in notes[1:]} == {notes[0]["function"]}
    assert [note["most"] is None for note in notes] == [False] * 5 + [True]
    assert notes[-1]["fewest"] == 0
    # Only the first one is not spent again.
    assert 0 < costs[0][0] == costs[-1][0]
    assert costs[0][1] < costs[1][1] < costs[5][1]


def test_validation_is_neither_a_step_nor_counted(recorder, told):
    made = model()
    made.evaluate(X, Y, batch_size=16, verbose=0)
    made.fit(X, Y, batch_size=16, verbose=0, validation_data=(X, Y))
    made.predict(X, verbose=0)

    assert (len(told), counted(recorder)) == (4, 4)


def test_of_several_batches_in_a_call_it_is_said_that_nothing_tells_how_long_it_waits(recorder, told):
    model(steps_per_execution=2).fit(X, Y, batch_size=16, verbose=0)

    assert told == [("Sequential", 2)] * 2
    assert counted(recorder) == 0
    assert fit.FRAMEWORK.waits_inside


def noted_facts(recorder: Recorder) -> list[dict[str, Any]]:
    recorder.stop("exit")
    return only(recorder.folder).noted("facts")


def test_a_model_that_is_compiled_anew_for_several_batches_hides_its_waits_from_then_on(recorder):
    made = model()
    made.fit(X, Y, batch_size=16, verbose=0)
    assert not fit.FRAMEWORK.waits_inside
    made.compile("sgd", "mse", steps_per_execution=2)
    made.fit(X, Y, batch_size=16, verbose=0)
    assert fit.FRAMEWORK.waits_inside
    made.compile("sgd", "mse")
    made.fit(X, Y, batch_size=16, verbose=0)

    assert counted(recorder) == 8
    # Of the last nobody knows when it began to be so.
    assert [note["waits_inside"] for note in noted_facts(recorder)] == [False, True]


def test_of_two_models_each_is_asked_for_itself(recorder):
    model().fit(X, Y, batch_size=16, verbose=0)
    model(steps_per_execution=2).fit(X, Y, batch_size=16, verbose=0)

    assert fit.FRAMEWORK.waits_inside


def test_an_eager_fit_and_calls_with_a_batch_hide_nothing(recorder, told):
    model(run_eagerly=True).fit(X, Y, batch_size=16, verbose=0)
    model().train_on_batch(X, Y)

    assert [name for name, *_ in told] == ["Sequential"] * 5
    assert not fit.FRAMEWORK.waits_inside


def test_a_function_trains_in_whose_trace_gradients_are_computed(recorder, told):
    weight = tf.Variable(tf.ones((8, 1)))

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ weight) ** 2)
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        return loss

    predict = tf.function(lambda x: x @ weight)
    for _ in range(3):
        step(X)
        predict(X)

    assert told == [("TrainedFunction",)] * 3


class OwnStep(keras.Sequential):  # type: ignore[misc]  # Keras is not typed
    def train_step(self, data: Any) -> Any:
        x, y, *_ = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


class DecoratedStep(OwnStep):
    @functools.wraps(OwnStep.train_step)
    def wrapper(self, data: Any) -> Any:
        return OwnStep.train_step(self, data)

    train_step = wrapper


@pytest.mark.parametrize("kind", [keras.Sequential, OwnStep, DecoratedStep])
def test_a_models_step_is_told_of_once_whether_fit_calls_it_or_a_loop_of_the_scripts_own(recorder, told, kind):
    made = kind([keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    made.fit(X, Y, batch_size=16, verbose=0)
    made.train_on_batch(X, Y)
    assert [name for name, *_ in told] == [kind.__name__] * 5
    step = tf.function(made.train_step)
    for _ in range(3):
        step((tf.constant(X), tf.constant(Y)))

    assert [name for name, *_ in told[5:]] == ["TrainedFunction"] * 3


def test_a_function_that_the_script_and_fit_call_is_told_of_by_whoever_calls_it(recorder, told):
    made = OwnStep([keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    step = made.train_step = tf.function(made.train_step)
    for _ in range(2):
        step((tf.constant(X), tf.constant(Y)))
        made.fit(X, Y, batch_size=16, verbose=0)

    assert [name for name, *_ in told] == (["TrainedFunction"] + ["OwnStep"] * 4) * 2


def test_a_function_that_explains_or_attacks_trains_nothing(recorder, told):
    weight = tf.Variable(tf.ones((8, 1)))

    @tf.function
    def saliency(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_mean((x @ weight) ** 2)
        return tape.gradient(target=loss, sources=x)

    frozen = tf.Variable(tf.ones((8, 1)), trainable=False)

    @tf.function
    def sensitivity(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(frozen)
            loss = tf.reduce_mean((x @ frozen) ** 2)
        return tape.gradient(loss, [frozen])

    for _ in range(3):
        saliency(tf.constant(X))
        sensitivity(tf.constant(X))

    assert told == []


def test_adversarial_training_trains(recorder, told):
    weight = tf.Variable(tf.ones((8, 1)))

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            loss = tf.reduce_mean((x @ weight) ** 2)
        attack = tape.gradient(loss, x)
        weight.assign_sub(0.1 * tape.gradient(target=loss, sources={"weight": weight})["weight"])
        return attack

    step(tf.constant(X))

    assert told == [("TrainedFunction",)]


def test_a_function_has_its_own_names(recorder):
    @tf.function
    def step(x: Any, function: Any) -> Any:
        return x + function

    assert float(step(tf.constant(1.0), function=tf.constant(2.0))) == 3.0


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
def test_a_data_set_that_ends_leaves_no_batch_open(recorder, told):
    def batches() -> Any:
        for _ in range(3):
            yield X[:16], Y[:16]

    form = tf.TensorSpec((16, 8)), tf.TensorSpec((16, 1))
    model().fit(tf.data.Dataset.from_generator(batches, output_signature=form), verbose=0, shuffle=False)
    weight, optimizer = tf.Variable(1.0), keras.optimizers.SGD()
    optimizer.apply_gradients([(tf.constant(1.0), weight)])

    assert told == [("Sequential", 1)] * 3
    recorder.stop("exit")
    assert [note["type"] for note in only(recorder.folder).noted("optimizer")] == ["SGD"]


def test_a_model_that_was_recorded_is_saved_and_loaded_as_any_other(recorder, told, tmp_path):
    made = model()
    made.fit(X, Y, verbose=0)
    made.save(tmp_path / "model.keras")
    made.export(tmp_path / "exported", verbose=False)

    expected = made.predict(X, verbose=0)
    assert (keras.models.load_model(tmp_path / "model.keras").predict(X, verbose=0) == expected).all()
    assert (tf.saved_model.load(tmp_path / "exported").serve(X).numpy() == expected).all()


def test_an_error_of_the_script_reaches_it(recorder, told):
    with pytest.raises(ValueError, match="cardinality"):
        model().fit(X, Y[:-1], verbose=0)
    assert not told


class Cut(Exception):
    """Ends a training as a user may, who waits for its first step."""


def test_a_first_step_that_does_not_end_is_told_of_and_writes_nothing(recorder: Recorder) -> None:
    made = model()

    def train_step(_: Any) -> Any:
        raise Cut

    made.train_step = train_step
    page = recorder.page.bytes
    assert page[contract.CONTROL_BEGUN] == 0

    with pytest.raises(Cut):
        made.fit(X, Y, batch_size=16, verbose=0)

    assert page[contract.CONTROL_BEGUN] == 1
    assert recorder.watched == {}
