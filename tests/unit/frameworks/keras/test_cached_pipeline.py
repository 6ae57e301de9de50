"""Cached batches in the place of a pipeline of tf.data, switched in running calls of `fit`."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="needs keras and tensorflow-cpu")
keras: Any = pytest.importorskip("keras", reason="needs keras and tensorflow-cpu")
if keras.config.backend() != "tensorflow":
    pytest.skip("Keras computes with another framework here", allow_module_level=True)

import tensorflow as tf  # noqa: E402

from slowstep.frameworks.keras.inside.levers import constant_batch, mock_loader  # noqa: E402
from slowstep.frameworks.tensorflow.inside._input import changing, kept, readiness  # noqa: E402
from slowstep.levers.mock_loader import RING  # noqa: E402
from slowstep.record.experiment.lever import LeverSpec, NotApplicable  # noqa: E402
from slowstep.record.experiment.training import Training  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
    # Of a generator nobody knows that this is all.
    pytest.mark.filterwarnings("ignore:Your input ran out of data"),
]

ASKED_FROM, ON_FROM, OFF_FROM = 3, 24, 30


class Tells(keras.Model):  # type: ignore[misc]
    """Says of each batch which it was; `traced` counts how often the step was."""

    def __init__(self) -> None:
        super().__init__()
        self.traced = 0

    def train_step(self, data: Any) -> Any:
        self.traced += 1
        return {"seen": tf.reduce_max(data)}


class Acts(keras.callbacks.Callback):  # type: ignore[misc]
    """Does something after so many batches; `seen` are the batches trained on, as they say of themselves."""

    def __init__(self, acts: dict[int, Callable[[], object]]) -> None:
        super().__init__()
        self.seen: list[int] = []
        self._acts = acts

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.seen.append(int(logs["seen"]))
        self._acts.get(len(self.seen), lambda: None)()


class Levered:
    """A lever in a training, made ready, switched on and off again."""

    def __init__(self, recorder: Recorder, lever: Any = mock_loader) -> None:
        self._recorder, self._lever = recorder, lever
        self.change: Any = None
        self.ready: list[bool] = []

    def prepare(self) -> None:
        self.change = self._lever.prepare(Training(self._recorder), LeverSpec(name="mock-loader"))

    def on(self) -> None:
        self.ready.append(self.change.ready())
        self.change.on()

    def off(self) -> None:
        self.change.off()

    def end(self) -> None:
        self.change.remove()

    def acts(self) -> dict[int, Callable[[], object]]:
        return {ASKED_FROM: self.prepare, ON_FROM: self.on, OFF_FROM: self.off, OFF_FROM + 3: self.end}


def trained(batches: Any, acts: dict[int, Callable[[], object]], **given: Any) -> tuple[list[int], Tells]:
    model, follows = Tells(), Acts(acts)
    model.compile("sgd", **given.pop("compiled", {}))
    model.fit(batches, verbose=0, shuffle=False, callbacks=[follows], **given)
    return follows.seen, model


def wait_for(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + 10
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    return condition()


def numbered(count: int) -> Any:
    return tf.data.Dataset.range(count).map(lambda number: tf.cast(number, tf.float32)[None]).batch(1)


def test_it_gives_the_batches_that_came_while_it_was_made_ready_and_the_pipeline_goes_on_where_it_was(recorder):
    lever = Levered(recorder)

    seen, model = trained(numbered(100), lever.acts(), steps_per_epoch=40)

    ring = list(range(ASKED_FROM, ASKED_FROM + RING))
    given = OFF_FROM - ON_FROM
    assert seen == [*range(ON_FROM), *ring[:given], *range(ON_FROM, 40 - given)]
    assert lever.ready == [True]
    assert lever.change.effect == given
    assert model.traced == trained(numbered(100), {}, steps_per_epoch=40)[1].traced


def test_nothing_stays_of_it(recorder):
    lever, found = Levered(recorder), []
    iterators = recorder.shared(changing.AskedIterators)
    acts = {**lever.acts(), 35: lambda: found.append(dict(vars(iterators.last)))}

    trained(numbered(100), {1: lambda: found.append(dict(vars(iterators.last))), **acts}, steps_per_epoch=40)

    assert found[0]["_iterator_resource"] is found[1]["_iterator_resource"]
    assert found[0].keys() == found[1].keys()
    assert recorder.shared(kept.KeptBatches).batches == []


@pytest.mark.parametrize("known", [True, False])
def test_an_epoch_that_ends_while_it_is_on_is_followed_by_one_of_its_batches_too(recorder, known):
    batches = numbered(26).repeat(1) if known else numbered(26).filter(lambda _: True)

    seen, _ = trained(batches, {**Levered(recorder).acts(), 33: lambda: None}, epochs=2)

    # An epoch whose length nobody knows ends where its pipeline does.
    first = 26 if known else 32
    assert seen[:ON_FROM] == list(range(24))
    assert seen[first : first + 2] == ([5, 6] if known else [0, 1])
    assert len(seen) == (52 if known else 58)


def test_constant_batch_gives_one(recorder):
    seen, _ = trained(numbered(100), Levered(recorder, constant_batch).acts(), steps_per_epoch=40)

    assert set(seen[ON_FROM:OFF_FROM]) == {ASKED_FROM}


def test_constant_batch_is_ready_with_one(recorder):
    lever, ready = Levered(recorder, constant_batch), []
    acts = {step: lambda: ready.append(lever.change.ready()) for step in range(ASKED_FROM + 1, 8)}

    trained(numbered(100), {ASKED_FROM: lever.prepare, **acts}, steps_per_epoch=10)

    # The first may be the short one at the end of an epoch, until there is one after it.
    assert ready == [False, True, True, True]
    assert len(recorder.shared(kept.KeptBatches).batches) == 2


def test_of_two_levers_that_need_batches_each_is_ready_when_it_has_its_own(recorder):
    cached, constant, ready = Levered(recorder), Levered(recorder, constant_batch), []
    acts = {ASKED_FROM: cached.prepare, ASKED_FROM + 1: constant.prepare}
    steps = (ASKED_FROM + 3, ASKED_FROM + RING)

    def ask() -> None:
        ready.append((cached.change.ready(), constant.change.ready()))

    trained(numbered(100), {**acts, **dict.fromkeys(steps, ask)}, steps_per_epoch=30)

    assert ready == [(False, True), (True, True)]


def test_with_several_steps_of_a_call_none_is_left_out(recorder):
    lever = Levered(recorder)
    acts = {1: lever.prepare, 6: lever.on, 8: lever.off, 9: lever.end}

    seen, _ = trained(numbered(100), acts, steps_per_epoch=40, compiled={"steps_per_execution": 4})

    assert seen == [3, 7, 11, 15, 19, 23, 7, 11, 27, 31]


def test_eager_calls_get_them_too(recorder):
    seen, _ = trained(numbered(100), Levered(recorder).acts(), steps_per_epoch=40, compiled={"run_eagerly": True})

    assert seen[ON_FROM:OFF_FROM] == list(range(3, 9))


def slowly(batches: Any) -> Any:
    def wait(number: Any) -> Any:
        time.sleep(0.02)
        return number

    return batches.map(lambda number: tf.ensure_shape(tf.numpy_function(wait, [number], tf.float32), number.shape))


def test_what_gathers_meanwhile_is_discarded_but_no_more_than_was_given_in_its_place(recorder):
    lever = Levered(recorder)
    # What the shuffle holds is nothing that lies ready, and grows less in each step.
    batches = slowly(numbered(100).cache().shuffle(100)).prefetch(16)
    usual: list[Any] = []
    more = {OFF_FROM - 1: lambda: time.sleep(1.0), OFF_FROM + 1: lambda: usual.append(recorder.shared(kept.KeptBatches).usual_ready)}

    seen, _ = trained(batches, {**lever.acts(), **more}, steps_per_epoch=40)

    given = OFF_FROM - ON_FROM
    # It may have made all that it may while the step was traced.
    assert usual[0] <= 8
    assert lever.change.discarded == given
    assert len(set(seen)) == len(seen) - given


def test_of_a_pipeline_that_fills_a_cache_no_more_is_discarded_than_was_made_ahead(recorder):
    lever, usual = Levered(recorder), []
    more = {OFF_FROM - 1: lambda: time.sleep(0.2), OFF_FROM + 1: lambda: usual.append(recorder.shared(kept.KeptBatches).usual_ready)}

    trained(numbered(100).cache().prefetch(1), {**lever.acts(), **more}, steps_per_epoch=40)

    assert usual[0] <= 1
    assert lever.change.discarded <= 1


@pytest.mark.parametrize("epoch", [1, 2])
def test_ready_is_what_is_made_ahead_and_not_what_a_shuffle_or_a_cache_holds(epoch):
    batches = tf.data.Dataset.range(400).cache().repeat(epoch).shuffle(100).batch(4).prefetch(3)
    iterator = iter(batches)

    for _ in range(100 * epoch - 50):
        next(iterator)

    assert wait_for(lambda: readiness.state_of(iterator._iterator_resource).ready == 3.0)


def test_the_short_last_batch_of_a_stream_is_not_kept(recorder):
    batches, found = tf.data.Dataset.range(22).map(lambda number: tf.cast(number, tf.float32)[None]), []
    lever = Levered(recorder)
    acts = {3: lever.prepare, 23: lambda: found.extend(recorder.shared(kept.KeptBatches).batches)}

    trained(batches.filter(lambda _: True).batch(4), acts, epochs=4)

    assert [len(batch[0]) for batch in found] == [4] * RING


def test_of_epochs_of_one_batch_they_are_kept_too(recorder):
    lever, found = Levered(recorder), []

    trained(numbered(1), {2: lever.prepare, 20: lambda: found.append(lever.change.ready())}, epochs=21)

    assert found == [True]


def test_the_iterator_of_an_epoch_that_is_over_is_not_kept(recorder):
    lever, iterators = Levered(recorder), []
    known = recorder.shared(changing.AskedIterators)
    acts = {3: lever.prepare, 4: lambda: iterators.append(weakref.ref(known.last)), 9: lambda: gc.collect()}

    trained(numbered(6), {**acts, 10: lambda: iterators.append(iterators[0]())}, epochs=2)

    assert iterators[1] is None


def test_after_a_fork_nothing_gives_any_more_and_levers_are_made_anew(recorder):
    before, after, found = Levered(recorder), Levered(recorder), []
    known = recorder.shared(changing.AskedIterators)

    def fork() -> None:
        for forget in recorder.forgetters:
            forget()
        found.append(vars(iterators()[0])["_iterator_resource"])
        before.change.remove()

    def iterators() -> list[Any]:
        return [known.last] if known.last is not None else kept_alive

    kept_alive: list[Any] = []
    own: list[Any] = []
    acts = {
        1: lambda: (kept_alive.append(known.last), own.append(vars(known.last)["_iterator_resource"])),
        3: before.prepare,
        ON_FROM: before.on,
        ON_FROM + 1: fork,
        ON_FROM + 2: after.prepare,
        ON_FROM + 20: after.on,
        ON_FROM + 22: after.off,
    }
    trained(numbered(100), acts, steps_per_epoch=50)

    assert found == own
    assert after.ready == [True]
    assert after.change.effect == 2


def test_of_a_generator_no_batch_is_asked_for_twice(recorder):
    asked: list[int] = []

    def give() -> Iterator[Any]:
        for number in range(100):
            asked.append(number)
            yield [number]

    batches = tf.data.Dataset.from_generator(give, output_signature=tf.TensorSpec((1,)))
    trained(batches, Levered(recorder).acts(), steps_per_epoch=40)

    assert asked == sorted(set(asked))


def test_without_fit_it_is_not_applicable(recorder):
    with pytest.raises(NotApplicable) as refused:
        mock_loader.prepare(Training(recorder), LeverSpec(name="mock-loader"))

    assert str(refused.value) == changing.NO_PIPELINE


def test_on_for_good_it_is_not_applicable_where_an_epoch_has_no_known_end(recorder):
    recorder.levers = [{"name": "mock-loader", "value": None, "every": 1}]
    refused: list[str] = []

    def prepare() -> None:
        try:
            mock_loader.prepare(Training(recorder), LeverSpec(name="mock-loader"))
        except NotApplicable as error:
            refused.append(str(error))

    trained(numbered(8).filter(lambda _: True), {3: prepare})

    assert refused == [changing.NO_LENGTH]


def test_batches_that_take_too_much_memory_are_not_kept(recorder, monkeypatch):
    lever = Levered(recorder)
    monkeypatch.setattr(kept, "memory_free_bytes", lambda: 4)
    refused: list[str] = []

    def ask() -> None:
        with pytest.raises(NotApplicable) as raised:
            lever.change.ready()
        refused.append(str(raised.value))

    seen, _ = trained(numbered(20), {3: lever.prepare, 6: ask})

    assert refused
    assert seen == list(range(20))


FAILS = 6


@pytest.mark.parametrize("calls", [1, 4])
def test_a_pipeline_that_fails_while_it_is_made_ready_fails_as_without_it_and_refuses_it(recorder, calls):
    lever = Levered(recorder)

    def fails(number: Any) -> Any:
        with tf.control_dependencies([tf.debugging.assert_none_equal(number, tf.constant(FAILS, tf.int64), message="no such sample")]):
            return tf.cast(number, tf.float32)[None]

    follows = Acts({1: lever.prepare})
    model = Tells()
    model.compile("sgd", steps_per_execution=calls)
    with pytest.raises(tf.errors.InvalidArgumentError, match="no such sample"):
        model.fit(tf.data.Dataset.range(20).map(fails).batch(1), verbose=0, shuffle=False, callbacks=[follows], steps_per_epoch=20)

    assert follows.seen == list(range(calls - 1, FAILS, calls))
    assert "InvalidArgumentError" in recorder.shared(kept.KeptBatches).refused
