"""What is read of tf.data pipelines as installed: what each stage counts, whose function it calls, and that nothing is kept or changed."""

from __future__ import annotations

import gc
import sys
import time
import weakref
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
from slowstep.frameworks.keras.inside import callbacks, fit  # noqa: E402
from slowstep.frameworks.tensorflow.inside import _pipelines, fetches, functions, iterators  # noqa: E402
from slowstep.frameworks.tensorflow.inside._stages import stages_of  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402
from slowstep.stages import LOADER_START  # noqa: E402

# Of Keras with the newest NumPy.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")]

ASLEEP_NS = 2_000_000
HERE = Path(__file__)


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """One that reads pipelines after each batch."""
    monkeypatch.setattr(_pipelines, "_FIRST_EVERY_NS", 0)
    monkeypatch.setattr(_pipelines, "_PAUSE", 0)
    monkeypatch.setattr(_pipelines, "_PART_OF_TIME", 1 << 62)
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    recorder.fault = lambda error: pytest.fail(repr(error))  # type: ignore[method-assign]
    made = sys.modules["tensorflow.python.data.ops.iterator_ops"].OwnedIterator
    before = dict(vars(made))
    undos = [each.HOOK.install(recorder) for each in (callbacks, fit, fetches, functions, iterators)]
    yield recorder
    for undo in reversed(undos):
        undo()
    assert dict(vars(made)) == before
    recorder.stop("exit")


def noted(recorder: Recorder, kind: str) -> list[dict[str, Any]]:
    recorder.stop("exit")
    return only(recorder.folder).noted(kind)


def asleep(number: Any) -> Any:
    time.sleep(ASLEEP_NS / 1e9)
    return np.full((4,), number, "f")


def parsed(number: Any) -> Any:
    made = tf.ensure_shape(tf.numpy_function(asleep, [number], tf.float32), (4,))
    return made, tf.ones((1,))


def samples() -> Any:
    return tf.data.Dataset.range(1000).shuffle(8).map(parsed).batch(4)


def trained(data: Any, **more: Any) -> None:
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(data, verbose=0, shuffle=False, **more)


def trained_eagerly(data: Any) -> list[Any]:
    """A loop of the script's own, and its batches: what trains is known from its first update on."""
    weight = tf.Variable(1.0)
    train = tf.function(lambda: weight.assign_sub(0.1 * gradient_of(weight)))
    batches = []
    for batch in data:
        train()
        batches.append(batch)
    return batches


def gradient_of(weight: Any) -> Any:
    with tf.GradientTape() as tape:
        loss = weight * weight
    return tape.gradient(loss, weight)


def from_inner(count: int) -> Any:
    """A data set that is made in Python of another one, which is read eagerly."""

    def generated() -> Iterator[Any]:
        for batch in tf.data.Dataset.range(1000).map(lambda number: tf.cast([number] * 4, tf.float32)).take(count):
            yield tf.reshape(batch, (1, 4)), tf.ones((1, 1))

    form = (tf.TensorSpec((1, 4), tf.float32), tf.TensorSpec((1, 1), tf.float32))
    return tf.data.Dataset.from_generator(generated, output_signature=form)


def test_each_stage_below_fit_is_read_between_batches_and_validation_is_not(recorder):
    trained(samples(), steps_per_epoch=6, validation_data=samples(), validation_steps=3)

    notes = noted(recorder, "pipeline")
    readings = [{node["name"]: node for node in note["nodes"]} for note in noted(recorder, "pipeline_nodes")]
    assert [note.get("iterator") for note in notes] == [None]
    assert [reading["Root"]["elements"] for reading in readings] == [1, 2, 3, 4, 5, 6]
    # Sleeping is never shorter than asked for; how much longer is the machine's.
    called = next(node for name, node in readings[-1].items() if name.startswith("MapAndBatch"))
    assert called["ns"] >= 6 * 4 * ASLEEP_NS
    assert called["parallelism"] == 1


def starts(recorder: Recorder) -> int:
    """How often it was written down what making an iterator took."""
    recorder.stop("exit")
    process = only(recorder.folder)
    names = {note["id"]: note["text"] for note in process.noted("text")}
    return sum(names[record.a] == LOADER_START for record in process.of("SPAN"))


@pytest.mark.parametrize("fitted", [{}, {"validation_data": samples().take(2)}])
def test_the_making_of_iterators_is_recorded_in_fit_and_not_in_its_validation(recorder, fitted):
    trained(samples().take(2), epochs=3, **fitted)

    # Before the first step it is not known that there will be any. Keras makes one, or two, for each other epoch.
    assert starts(recorder) in (2, 5)


def test_an_iterator_that_lasts_is_not_made_again(recorder):
    trained(samples().repeat(), epochs=3, steps_per_epoch=2)

    assert starts(recorder) == 0


def test_stages_are_named_with_the_functions_of_the_script(recorder):
    trained(samples(), steps_per_epoch=2)

    stages = noted(recorder, "pipeline")[0]["stages"]
    assert [stage["kind"] for stage in stages] == ["Batch", "Map", "Shuffle", "Range"]
    assert [stage["into"] for stage in stages] == [-1, 0, 1, 2]
    line = {name: function.__code__.co_firstlineno for name, function in (("parsed", parsed), ("asleep", asleep))}
    assert stages[1]["function"] == ["parsed", str(HERE), line["parsed"]]
    assert stages[1]["python"] == [["asleep", str(HERE), line["asleep"]]]


def test_an_eager_loop_s_pipeline_has_the_number_of_its_waits(recorder):
    trained_eagerly(samples().take(5))

    iterators_noted, pipelines = noted(recorder, "iterator"), noted(recorder, "pipeline")
    assert [note["iterator"] for note in pipelines] == [note["id"] for note in iterators_noted]
    assert len(noted(recorder, "pipeline_nodes")) == 4


def test_files_are_read_by_a_stage_that_the_framework_makes_for_each(recorder, tmp_path):
    file = str(tmp_path / "samples")
    with tf.io.TFRecordWriter(file) as writer:
        for number in range(12):
            writer.write(str(number).encode())

    trained_eagerly(tf.data.TFRecordDataset(file).batch(2))

    assert [stage["kind"] for stage in noted(recorder, "pipeline")[0]["stages"]] == ["Batch", "TFRecord"]
    nodes = {node["name"]: node for node in noted(recorder, "pipeline_nodes")[0]["nodes"]}
    assert nodes["TFRecord"]["id"] in nodes["FlatMap"]["inputs"][1:]


def test_what_a_generator_reads_within_a_pipeline_is_not_looked_at(recorder):
    trained(from_inner(12), steps_per_epoch=6)
    trained_eagerly(from_inner(6))

    kinds = [[stage["kind"] for stage in note["stages"]] for note in noted(recorder, "pipeline")]
    assert len(kinds) == 2
    assert not any("Take" in each for each in kinds)
    assert len(noted(recorder, "pipeline_nodes")) == 6 + 6


def test_a_fit_that_runs_eagerly_has_each_pipeline_once(recorder):
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    model.fit(samples(), verbose=0, shuffle=False, steps_per_epoch=3, validation_data=samples(), validation_steps=2)

    pipelines, waits = noted(recorder, "pipeline"), noted(recorder, "iterator")
    assert [note["iterator"] for note in pipelines] == [note["id"] for note in waits]
    assert len(pipelines) == 2


def test_where_autotune_is_off_that_is_said_once(recorder):
    options = tf.data.Options()
    options.autotune.enabled = False
    trained_eagerly(samples().with_options(options).take(4))

    assert [note["why"] for note in noted(recorder, "pipeline_unread")] == [_pipelines.AUTOTUNE_OFF]
    assert noted(recorder, "pipeline_nodes") == []


def test_no_pipeline_is_kept_alive(recorder):
    iterator = iter(samples().take(4))
    trained_eagerly(iterator)
    gone = weakref.ref(iterator)
    del iterator
    gc.collect()

    assert gone() is None
    recorder.shared(_pipelines.Pipelines).read(1 << 62)
    assert len(noted(recorder, "pipeline_nodes")) == 3


def test_elements_are_the_same_as_unread(recorder):
    def trained_on() -> list[Any]:
        tf.random.set_seed(1)
        return [batch.numpy().tolist() for batch in trained_eagerly(tf.data.Dataset.range(64).shuffle(16, seed=3).batch(4))]

    read = trained_on()
    recorder.live[0] = False
    unread = trained_on()

    assert read == unread
    assert len(noted(recorder, "pipeline_nodes")) == 15


def test_what_was_before_the_reading_is_not_its_cost(recorder):
    pipelines, iterator = recorder.shared(_pipelines.Pipelines), iter(samples())
    pipelines.add(iterator, None)
    before_ns, began_ns = recorder.once_ns, time.monotonic_ns()

    pipelines.read(1)

    assert 0 < recorder.once_ns - before_ns <= time.monotonic_ns() - began_ns


def test_whoever_makes_the_elements_in_python_is_named():
    class Rows(keras.utils.PyDataset):
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> Any:
            return np.ones((4, 8), "f"), np.ones((4, 1), "f")

    def generated() -> Iterator[Any]:
        yield from range(5)

    form = tf.TensorSpec((), tf.int64)
    nested = tf.data.Dataset.range(3).interleave(lambda _: tf.data.Dataset.range(3).map(parsed))
    adapters = keras.src.trainers.data_adapters
    adapter = adapters.py_dataset_adapter.PyDatasetAdapter(Rows(), shuffle=False)
    arrays = adapters.array_data_adapter.ArrayDataAdapter(np.ones((8, 2), "f"), batch_size=4).get_tf_dataset()

    doubled = tf.function(lambda number: tf.map_fn(lambda value: 2 * value, tf.range(number)))
    looping = [tf.data.Dataset.range(3).map(each) for each in (doubled, lambda number: tf.vectorized_map(abs, tf.range(number)))]

    assert [stages_of(each)[0].get("loops") for each in looping] == [True, None]
    generator = stages_of(tf.data.Dataset.from_generator(generated, output_signature=form).batch(2))[1]
    rows = next(stage for stage in stages_of(adapter.get_tf_dataset()) if stage.get("generator"))
    assert [place[0].rpartition(".")[2] for place in generator["python"]] == ["generated"]
    assert generator["generator"]
    assert rows["reads"] == "PyDataset"
    assert rows["python"][0][0].endswith("Rows.__getitem__")
    assert [place[0] for place in stages_of(nested)[0]["python"]] == ["asleep"]
    assert "arrays" in [stage.get("reads") for stage in stages_of(arrays)]


@pytest.mark.parametrize(
    "called",
    [
        pytest.param(tf.function(parsed), id="in a function"),
        pytest.param(lambda number: tf.cond(number > 1, lambda: parsed(number)[0], lambda: tf.zeros((4,))), id="in a branch"),
        pytest.param(lambda number: tf.map_fn(parsed, number[None], (tf.float32, tf.float32)), id="in a loop"),
    ],
)
def test_what_a_stage_calls_in_python_is_found_wherever_it_is_called(called):
    (stage, _) = stages_of(tf.data.Dataset.range(3).map(called))

    assert [place[0] for place in stage["python"]] == ["asleep"]
