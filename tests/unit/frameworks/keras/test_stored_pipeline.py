"""A second pipeline of tf.data that stores what is the same in each epoch, switched in running calls of `fit`."""

from __future__ import annotations

import time
from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="needs keras and tensorflow-cpu")
keras: Any = pytest.importorskip("keras", reason="needs keras and tensorflow-cpu")
if keras.config.backend() != "tensorflow":
    pytest.skip("Keras computes with another framework here", allow_module_level=True)

import tensorflow as tf  # noqa: E402

from fitted_pipelines import OFF, OFF_AGAIN, ON, ON_AGAIN, LeveredPipeline, as_row, trained  # noqa: E402
from slowstep.frameworks.keras.inside._given import MADE_BY_KERAS  # noqa: E402
from slowstep.frameworks.keras.inside.levers import cache, interleave  # noqa: E402
from slowstep.frameworks.tensorflow.inside._input import graphs, same_part, stored  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")]

COUNT = 30


def by_python(function: Any) -> Any:
    """A function in Python, of which the script says that it gives the same each time."""
    return lambda number: tf.ensure_shape(tf.numpy_function(function, [number], tf.int64, stateful=False), [])


def test_while_it_is_on_what_is_stored_is_not_made_again_and_is_what_the_own_pipeline_makes(recorder):
    lever, made, counts = LeveredPipeline(recorder, cache), [0], []

    def double(number: Any) -> Any:
        made[0] += 1
        return 2 * number

    def count_and(act: Any) -> Any:
        return lambda: (counts.append(made[0]), act())

    acts = lever.acts()
    acts |= {at: count_and(acts[at]) for at in (ON, OFF, ON_AGAIN, OFF_AGAIN)}
    # Calls that TensorFlow makes at once unasked are ahead of the training.
    options = tf.data.Options()
    options.experimental_optimization.map_parallelization = False
    batches = tf.data.Dataset.range(COUNT).map(by_python(double)).map(as_row).repeat().with_options(options)
    seen, model = trained(batches, acts, steps_per_epoch=40)

    assert lever.refused is None
    assert lever.ready[-1]
    assert seen[ON:OFF] == [2 * number for number in range(OFF - ON)]
    assert lever.change.effect == OFF - ON + OFF_AGAIN - ON_AGAIN
    # The own pipeline makes those between the two.
    assert counts[1] - counts[0] == counts[3] - counts[2] == 0
    assert counts[2] > counts[1]
    assert model.traced == trained(tf.data.Dataset.range(COUNT).map(as_row).repeat(), {}, steps_per_epoch=40)[1].traced


def test_an_epoch_of_it_has_the_same_numbers_in_the_same_order(recorder):
    lever = LeveredPipeline(recorder, cache)
    batches = tf.data.Dataset.range(2 * COUNT).map(lambda number: as_row(number * number)).batch(2).repeat()
    stays = {at: act for at, act in lever.acts().items() if at <= ON}

    seen, _ = trained(batches, stays, steps_per_epoch=ON + 2 * COUNT)

    epoch = [(2 * number + 1) ** 2 for number in range(COUNT)]
    assert seen[:ON] == epoch[:ON]
    assert seen[ON:] == 2 * epoch
    lever.change.off()
    lever.change.remove()


@pytest.mark.parametrize(
    ("batches", "why"),
    [
        (
            lambda: tf.data.Dataset.range(40).shuffle(40).map(as_row),
            same_part.NOTHING_SAME.format(why=same_part.OTHER_ORDER.format(stage="shuffle")),
        ),
        (lambda: tf.data.Dataset.range(40).map(as_row).cache(), graphs.NOT_AGAIN.format(graphs.ONE_READER["CacheDataset"])),
        (lambda: tf.ones([40, 1]), MADE_BY_KERAS),
    ],
    ids=["shuffle below", "cache already", "arrays"],
)
def test_where_nothing_can_be_stored_it_is_not_applicable(recorder, batches, why):
    lever = LeveredPipeline(recorder, cache)

    seen, _ = trained(batches(), lever.asks(), **({"batch_size": 4} if why == MADE_BY_KERAS else {}))

    assert lever.refused == why
    assert len(seen) in (10, 40)


def test_what_is_too_large_to_be_stored_is_refused_and_the_training_goes_on(recorder, monkeypatch):
    lever = LeveredPipeline(recorder, cache)
    monkeypatch.setattr(stored, "memory_free_bytes", lambda: 4)

    seen, _ = trained(tf.data.Dataset.range(40).map(as_row), lever.asks())

    assert lever.refused is not None
    assert "to store" in lever.refused
    assert seen == list(range(40))


def test_an_epoch_that_takes_too_long_is_not_stored_and_that_is_said(recorder, monkeypatch):
    monkeypatch.setattr(stored, "_SLICE_NS", 1_000_000)
    lever = LeveredPipeline(recorder, cache)

    def wait(number: Any) -> Any:
        time.sleep(0.005)
        return number

    trained(tf.data.Dataset.range(400).map(by_python(wait)).map(as_row), lever.asks(), steps_per_epoch=40)

    said = lever.change.lacks()
    lever.change.remove()
    assert set(lever.ready) == {False}
    assert said.startswith(stored.NO_EPOCH.partition("{")[0])
    assert " of 400 " in said


def test_a_second_pipeline_reads_several_inputs_at_once_while_that_lever_is_on(recorder):
    lever = LeveredPipeline(recorder, interleave)
    batches = tf.data.Dataset.range(3).flat_map(lambda first: tf.data.Dataset.range(100 * first, 100 * first + 30)).map(as_row)

    seen, _ = trained(batches, lever.acts(), steps_per_epoch=40)

    assert lever.refused is None
    assert seen[:ON] == list(range(ON))
    # The next is of the same input or of the next one, by how many TensorFlow takes in turn on so many cores.
    assert seen[ON] == 0
    assert seen[ON + 1] in (1, 100)
    assert seen[OFF] == ON
    assert lever.change.effect == OFF - ON + OFF_AGAIN - ON_AGAIN
