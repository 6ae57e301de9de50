"""A tf.data pipeline read alone as installed: whole, and cut after each stage, whose functions run when it is read and at no other time."""

from __future__ import annotations

import sys
import threading
import time
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
from slowstep.frameworks.tensorflow.inside import fetches, functions, iterators  # noqa: E402
from slowstep.frameworks.tensorflow.inside.tasks import bench_data  # noqa: E402
from slowstep.frameworks.tensorflow.inside.tasks._calls import AUTOTUNE, calls_of, counts, with_calls  # noqa: E402
from slowstep.frameworks.tensorflow.inside.tasks._drain import PipelineDrain, runs_ahead  # noqa: E402
from slowstep.frameworks.tensorflow.inside.tasks._prefixes import MOST_PREFIXES, prefixes_of, why_not  # noqa: E402
from slowstep.prove.bench.pipeline_prefixes import dearest, stage_costs  # noqa: E402
from slowstep.record.experiment.training import Training  # noqa: E402
from slowstep.record.recorder import Recorder, now  # noqa: E402

# Of Keras with the newest NumPy.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")]

# Far longer than what TensorFlow takes for an element.
ASLEEP_S = 0.005
LATE_NS = 60_000_000_000


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    recorder.fault = lambda error: pytest.fail(repr(error))  # type: ignore[method-assign]
    undos = [each.HOOK.install(recorder) for each in (callbacks, fit, fetches, functions, iterators)]
    yield recorder
    for undo in reversed(undos):
        undo()
    recorder.stop("exit")


def asleep(number: Any) -> Any:
    time.sleep(ASLEEP_S)
    return np.float32(number)


def slept(number: Any) -> Any:
    return tf.ensure_shape(tf.numpy_function(asleep, [number], tf.float32), ())


def with_target(batch: Any) -> Any:
    return batch[:, None], batch[:, None]


def pipeline() -> Any:
    return tf.data.Dataset.range(1_000_000).shuffle(16).map(slept).batch(4).map(with_target)


class BenchAfter(keras.callbacks.Callback):  # type: ignore[misc,name-defined]
    """Does the task in the place of a step, as a switch does."""

    def __init__(self, recorder: Recorder, seconds: float) -> None:
        super().__init__()
        self.recorder, self.seconds = recorder, seconds

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == 1:
            self.recorder.ensure_open()
            bench_data.run(Training(self.recorder), {"seconds": self.seconds, "parts": True, "sweep": True})


def benched(recorder: Recorder, data: Any, seconds: float = 3.0, **more: Any) -> list[dict[str, Any]]:
    """Three steps of `fit`, the task after the second; its notes."""
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(data, verbose=0, shuffle=False, callbacks=[BenchAfter(recorder, seconds)], **more)
    recorder.stop("exit")
    return [note for note in only(recorder.folder).noted("task") if note["part"] != "begins"]


def test_the_pipeline_of_fit_is_cut_after_each_stage_and_the_one_that_sleeps_costs_most(recorder, monkeypatch):
    # However slow the machine is, no reading is left out.
    monkeypatch.setattr(bench_data, "_SPILL", 100)
    before = dict(vars(sys.modules["tensorflow.python.data.ops.iterator_ops"].OwnedIterator))

    loader, *readings = benched(recorder, pipeline(), steps_per_epoch=3)

    assert (loader["reason"], loader["batch_size"]) == (None, 4)
    # TensorFlow makes the last map a parallel one.
    assert readings[0]["runs_ahead"] is True
    assert [stage["kind"] for stage in loader["stages"]] == ["Range", "Shuffle", "Map", "Batch", "Map"]
    assert loader["stages"][2]["python"][0][0] == "asleep"
    cut = [note for note in readings if note["part"] != "calls"]
    assert [note["stage"] for note in cut] == [4, 0, 1, 2, 3, 4, 4, 3, 2, 1, 0]
    assert [note["part"] for note in cut if note["stage"] == 4] == ["drain"] * 3
    assert {(note["stage"], note["turn"]) for note in readings if note["part"] == "calls"} == {(2, 1), (2, 2)}
    assert {1, 2, -1} <= {note["calls"] for note in readings if note["part"] == "calls"}
    assert {note["reason"] for note in readings} == {None}
    costs = stage_costs(loader["stages"], readings)
    assert dearest(costs) == 2
    # Sleeping is never shorter than asked for.
    assert costs[2].added_ms.value > 0.9 * ASLEEP_S * 1e3
    assert costs[1].samples_per_s.value > 2 * costs[2].samples_per_s.value
    assert dict(vars(sys.modules["tensorflow.python.data.ops.iterator_ops"].OwnedIterator)) == before


def test_a_slow_map_that_makes_one_image_at_a_time_is_the_one_that_is_tried(recorder, monkeypatch):
    """So slow that elements are read one by one; the map of batches after it takes less for a sample."""
    monkeypatch.setattr(bench_data, "_SPILL", 100)

    def image(number: Any) -> Any:
        time.sleep(6 * ASLEEP_S)
        return np.zeros((64, 64, 3), np.float32)

    def targets(images: Any) -> Any:
        # Beside the four images of the next batch: what is longer than these is seen.
        time.sleep(34 * ASLEEP_S)
        return np.zeros((4, 1), np.float32)

    def made(number: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(image, [number], tf.float32), (64, 64, 3))

    def pairs(images: Any) -> Any:
        target = tf.ensure_shape(tf.numpy_function(targets, [images], tf.float32), (4, 1))
        return images[:, 0, 0], target

    data = tf.data.Dataset.range(1_000_000).map(made).batch(4, drop_remainder=True).map(pairs)
    _, *readings = benched(recorder, data, seconds=1.0, steps_per_epoch=3)

    assert {note["stage"] for note in readings if note["part"] == "calls"} == {1}


def test_the_pipeline_of_an_eager_loop_is_read_too(recorder):
    weight = tf.Variable(1.0)

    @tf.function  # type: ignore[untyped-decorator]
    def train(batch: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(batch[0]) * weight
        weight.assign_sub(0.1 * tape.gradient(loss, weight))

    for number, batch in enumerate(pipeline().take(3)):
        train(batch)
        if number == 2:
            recorder.ensure_open()
            bench_data.run(Training(recorder), {"seconds": 0.2, "parts": False})
    recorder.stop("exit")

    loader, drain = [note for note in only(recorder.folder).noted("task") if note["part"] != "begins"]
    assert [stage["kind"] for stage in loader["stages"]] == ["Range", "Shuffle", "Map", "Batch", "Map"]
    assert (drain["epoch_batches"], drain["reason"]) == (3, None)


def test_what_is_read_alone_is_no_pipeline_of_the_training_s(recorder):
    benched(recorder, pipeline(), seconds=0.2, steps_per_epoch=3)

    assert len(only(recorder.folder).noted("pipeline")) == 1


def test_what_a_generator_gives_once_is_not_taken_from_the_training(recorder):
    given = ((np.ones((4, 1), "f"), np.ones((4, 1), "f")) for _ in range(3))

    (loader,) = benched(recorder, given, steps_per_epoch=3)

    assert "once only" in loader["reason"]


def test_a_training_that_reads_no_pipeline_is_told_so(recorder):
    recorder.ensure_open()
    bench_data.run(Training(recorder), {"seconds": 1.0, "parts": True})
    recorder.stop("exit")

    assert [note["reason"] for note in only(recorder.folder).noted("task")] == [bench_data.NO_PIPELINE]


def drained(dataset: Any, *, window: int = 0, seconds: float = 0.1) -> Any:
    return PipelineDrain(lambda: dataset, "Filter", seconds=seconds, until_ns=now() + LATE_NS, window=window).run()


def test_epochs_that_end_are_read_again_from_their_begin():
    read = drained(tf.data.Dataset.range(20).batch(4))

    assert (read.reason, read.epoch_batches) == (None, 5)
    # The time may be over within the last one.
    assert {edge.batches for edge in read.edges[:-1]} == {5}
    assert len(read.edges) > 1
    assert {row[2] / row[1] for row in read.rows} == {4}


def test_a_window_counts_the_elements_that_it_holds():
    read = drained(tf.data.Dataset.range(20), window=8)

    assert {edge.batches for edge in read.edges[:-1]} == {3}
    # 8, 8 and 4.
    assert sum(row[1] for row in read.rows) % 4 == 0
    assert sum(row[1] for row in read.rows) == sum(row[2] for row in read.rows) > 0


def test_what_gives_nothing_when_it_is_read_anew_is_said():
    given = iter(range(3))
    data = tf.data.Dataset.from_generator(lambda: given, output_signature=tf.TensorSpec((), tf.int32))
    assert len(list(data)) == 3

    assert drained(data).reason == "ValueError: it gave nothing when it was read again"


def test_what_the_script_s_function_raises_ends_a_reading():
    def broken(number: Any) -> Any:
        raise ValueError("broken")

    data = tf.data.Dataset.range(20).map(lambda number: tf.numpy_function(broken, [number], tf.int64))

    assert drained(data).reason == "ValueError: broken"


def test_elements_that_a_filter_takes_are_counted():
    data = tf.data.Dataset.range(10**6).filter(lambda number: number % 4 == 0)
    drain = PipelineDrain(lambda: data, "Filter", seconds=0.3, until_ns=now() + LATE_NS, window=8)
    drain.run()

    assert drain.inputs_per_element == pytest.approx(4, rel=0.1)


def as_written() -> Any:
    """Options with which TensorFlow runs a pipeline stage by stage as the script has it, without a prefetch of its own."""
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    return options


def untold() -> Any:
    options = tf.data.Options()
    options.autotune.enabled = False
    return options


def endless() -> Any:
    return tf.data.Dataset.range(10**6)


@pytest.mark.parametrize(
    ("dataset", "ahead"),
    [
        (lambda: endless().map(slept).batch(4), True),
        (lambda: endless().map(slept).batch(4).with_options(as_written()), False),
        (lambda: endless().map(slept).batch(4).prefetch(2).with_options(as_written()), True),
        (lambda: endless().prefetch(2).map(slept).batch(4).with_options(as_written()), False),
        (lambda: endless().map(slept, num_parallel_calls=2).batch(4).with_options(as_written()), True),
        (lambda: endless().map(slept, num_parallel_calls=1).map(slept).with_options(as_written()), None),
        (lambda: endless().map(slept).batch(4).with_options(untold()), None),
    ],
    ids=["as one stage", "when asked", "prefetch", "prefetch of what takes nothing", "parallel", "half of it", "nothing counted"],
)
def test_whether_a_pipeline_runs_ahead_is_told_by_what_takes_the_time(dataset, ahead):
    data = dataset()
    drain = PipelineDrain(lambda: data, "Map", seconds=0.5, until_ns=now() + LATE_NS)

    assert drain.run().reason is None
    assert drain.runs_ahead is ahead


PARALLEL, SERIAL = "ASYNC_KNOWN_RATIO", "KNOWN_RATIO"


@pytest.mark.parametrize(
    ("nodes", "ahead"),
    [
        ([("Root", SERIAL, 0), ("Batch", SERIAL, 9), ("ParallelMap", PARALLEL, 200)], True),
        ([("Root", SERIAL, 0), ("Batch", SERIAL, 11), ("ParallelMap", PARALLEL, 200)], None),
        ([("Root", SERIAL, 0), ("Map", SERIAL, 90), ("ParallelMap", PARALLEL, 11)], None),
        ([("Root", SERIAL, 0), ("Map", SERIAL, 90), ("ParallelMap", PARALLEL, 9)], False),
        ([("Root", SERIAL, 0), ("Batch", SERIAL, 1)], False),
        ([("Root", SERIAL, 0), ("Prefetch", PARALLEL, 0), ("Map", SERIAL, 90)], False),
    ],
    ids=["a tenth", "more", "most", "nearly all", "all", "a prefetch without a buffer"],
)
def test_a_tenth_of_the_time_is_the_same_as_none_of_it(nodes, ahead):
    proto = sys.modules["tensorflow.core.framework.model_pb2"]
    model = proto.ModelProto(output=1)
    for number, (name, kind, took) in enumerate(nodes, 1):
        inputs = [number + 1] if number < len(nodes) else []
        model.nodes[number].CopyFrom(proto.ModelProto.Node(id=number, name=name, node_class=kind, processing_time=took, inputs=inputs))

    assert runs_ahead(model, 100) is ahead


def kinds_of(dataset: Any) -> list[str]:
    return [prefix.stage["kind"] for prefix in prefixes_of(dataset)]


def test_stages_are_cut_as_far_as_they_follow_one_another():
    counted = tf.data.Dataset.range(8).batch(2).enumerate().map(lambda index, batch: batch)
    joined = tf.data.Dataset.zip((tf.data.Dataset.from_tensors(1), tf.data.Dataset.from_tensors(2))).repeat()
    generated = tf.data.Dataset.from_generator(lambda: iter([1]), output_signature=tf.TensorSpec((), tf.int32)).batch(2)

    assert kinds_of(counted) == ["Range", "Batch", "Zip", "Map"]
    assert (kinds_of(joined), prefixes_of(joined)[0].reads) == (["Zip"], 2)
    assert kinds_of(generated) == ["FlatMap", "Batch"]


def test_of_many_stages_the_last_ones_are_cut():
    data = tf.data.Dataset.range(8)
    for _ in range(20):
        data = data.map(lambda number: number + 1)

    assert kinds_of(data) == ["Map"] * MOST_PREFIXES


def test_elements_are_single_until_batches_are_made_of_them():
    data = tf.data.Dataset.range(8).batch(4).unbatch().map(lambda number: number).batch(2).prefetch(1)

    single = {prefix.stage["kind"]: prefix.holds_single for prefix in prefixes_of(data)}
    assert single == {"Range": True, "Map": True, "Batch": False, "Unbatch": True}
    assert prefixes_of(data)[-1].stage["then"] == ["Prefetch"]
    assert why_not(prefixes_of(data)) is None


def test_a_prefix_has_the_options_of_the_whole():
    options = tf.data.Options()
    options.deterministic = False
    options.threading.private_threadpool_size = 3

    first, _ = prefixes_of(tf.data.Dataset.range(8).batch(2).with_options(options))

    assert (first.dataset.options().deterministic, first.dataset.options().threading.private_threadpool_size) == (False, 3)


@pytest.mark.parametrize("own", [None, 3])
def test_a_map_with_other_calls_gives_the_same_and_its_function_is_not_traced_again(own: int | None):
    traced = []

    def plus(number: Any) -> Any:
        traced.append(number)
        return number + offset

    offset = tf.constant(5, tf.int64)
    data = tf.data.Dataset.range(8).map(plus, num_parallel_calls=own)
    before = len(traced)

    assert calls_of(data) == (own or 1)
    assert [int(number) for number in with_calls(data, 2)] == list(range(5, 13))
    assert [int(number) for number in with_calls(data, AUTOTUNE).batch(8).unbatch()] == list(range(5, 13))
    assert len(traced) == before


@pytest.mark.parametrize(("own", "tried"), [(7, [1, 2, 4, 7, AUTOTUNE]), (2, [1, 2, 4, AUTOTUNE]), (AUTOTUNE, [1, 2, 4, AUTOTUNE])])
def test_the_script_s_own_number_of_calls_is_one_of_those_that_are_tried(own: int, tried: list[int]):
    assert counts(4.5, own) == tried


@pytest.mark.parametrize(("calls", "is_one"), [(1, True), (4, False)])
def test_so_many_calls_are_made_at_once(calls: int, is_one: bool):
    inside, most, lock = [0], [0], threading.Lock()

    def counted(number: Any) -> Any:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        time.sleep(ASLEEP_S)
        with lock:
            inside[0] -= 1
        return np.float32(number)

    data = tf.data.Dataset.range(10**6).map(lambda number: tf.numpy_function(counted, [number], tf.float32))
    drained(with_calls(data, calls), seconds=0.5)

    assert (most[0] == 1) == is_one
    assert most[0] <= calls
