"""A pipeline of the framework's own that keeps compiled calls waiting: named where it does, left to others where they know more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from judged import answer_of, finding, values
from made_measurements import measurements, per_step
from made_pipelines import LOAD, PARSE, node, pipeline, slow_map, written
from slowstep.analyses.batches.counted_work import CountedWork
from slowstep.analyses.input.pipeline_functions import PipelineFunction
from slowstep.diagnosis.engine import diagnose
from slowstep.frameworks._known import all_words
from slowstep.frameworks._remedies import Remedy
from slowstep.frameworks._words import Words
from slowstep.parts import UNKNOWN, UPDATES, CodePlace, Part, PartKind
from slowstep.timeline.spine import Counted

NAME = "slow-pipeline"
TENSORFLOW = all_words()["tensorflow"]
BOTH = PipelineFunction(name="both", place=CodePlace("train.py", 3), is_library=False)
OF_PIPELINE = [each for each in Remedy if each.name.startswith(("PARALLEL_", "STAGE_", "GENERATED_"))]
WAIT = Part("preprocess", PartKind.INPUT_WAIT)


def trained(wait_ms: float, *, work_ms: float = 10.0, used: float = 1.0, counted: dict[str, Any] | None = None, **more: Any) -> Any:
    """Steps whose calls wait for so long, and compute; `used` cores are busy, of four."""
    work = CountedWork(
        waits=(Counted(start_ns=0, end_ns=1, count=1, total_ns=int(wait_ms * 1e6)),),
        waited_ns=np.asarray(per_step(wait_ms)),
        busy_ns=None,
        batches=1.0,
        num_workers=None,
        dataset="tf.data",
        is_asynchronous=False,
    )
    nothing = dict.fromkeys(measurements().ledger.parts, 0.0)
    return measurements(
        workers=None,
        ledger=nothing | {WAIT: wait_ms, UPDATES: work_ms} | more.pop("ledger", {}),
        counted=replace(work, **counted or {}),
        load={"tree_cores": used},
        **more,
    )


def test_a_pipeline_that_is_waited_for_is_named_with_what_a_ready_batch_gains():
    m = trained(30.0, used=0.5)

    found, verdict = finding(NAME, m), diagnose(m).verdict
    assert (verdict.state, verdict.rule) == ("bottleneck", NAME), verdict.reason
    assert found.gain.predicted == pytest.approx(4.0, rel=0.05)
    # With as much again of it a step takes half as long at worst.
    assert found.gain.low is not None
    assert found.gain.low == pytest.approx(2.0, rel=0.05)
    assert values(found)["of each step"] == pytest.approx(29.7)


def test_where_all_cores_compute_nothing_is_gained_by_more_of_it():
    found = finding(NAME, trained(30.0, used=3.4))

    assert found.gain.predicted == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize("work_ms", [10.0, 1.0])
def test_a_pipeline_that_keeps_up_is_left_alone_however_short_the_step(work_ms):
    assert answer_of(NAME, trained(0.3, work_ms=work_ms)) is None


@pytest.mark.parametrize(
    "counted",
    [{"num_workers": 0}, {"waits": (), "hides_waits": True}, {"waits": (), "is_asynchronous": True}, {"is_asynchronous": True}],
    ids=["serial-loader judges it", "nobody counts its waits", "a loop of JAX", "calls go on while it waits"],
)
def test_one_that_serial_loader_judges_and_one_whose_waits_nobody_counts_are_left_to_others(counted):
    assert answer_of(NAME, trained(30.0, counted=counted)) is None


def test_of_calls_that_hide_their_waits_the_verdict_stays_open():
    m = trained(0.0, work_ms=0.0, counted={"hides_waits": True}, ledger={UNKNOWN: 10.0})

    verdict = diagnose(m).verdict

    assert verdict.state == "undetermined"
    assert verdict.reason is not None


def test_a_framework_without_words_is_advised_workers_in_a_clause():
    counted = {"num_workers": 0, "busy_ns": np.asarray(per_step(30.0)), "dataset": "made"}

    found = finding("serial-loader", trained(30.0, counted=counted, words=Words(name="made", title="Made", arguments={})))

    assert found.fixes[0].text == "give the loader more worker processes"


def test_the_stage_that_holds_it_up_is_named_with_its_function_and_place():
    found = finding(NAME, trained(18.0, input={"pipeline": slow_map(18.0)}, used=1.5))

    assert found.names_cause
    assert "map of load (train.py:7)" in found.title
    assert values(found)["slowest stage"] == "map"
    assert values(found)["it takes for a batch"] == pytest.approx(18.0)


@pytest.mark.parametrize(
    ("name", "stages", "words"),
    [
        ("Map", [written("Map", BOTH, LOAD, PARSE)], "map of both (train.py:3)"),
        ("Map", [written("Map", PARSE), written("Map", BOTH)], "map"),
        ("Map", [written("Map", PARSE), written("Map", BOTH, LOAD)], "map"),
        ("MapAndFilter", [written("Filter", PARSE), written("Map", BOTH)], "filter"),
    ],
    ids=["one calls two in Python", "two maps were made one", "one of them is in Python", "a map and a filter"],
)
def test_of_several_functions_in_a_stage_none_is_the_cause_and_all_are_evidence(name, stages, words):
    nodes = [node(1, "Root", 2), node(2, "Prefetch", 3, buffer_size=2), node(3, name, ms=18.0)]

    found = finding(NAME, trained(18.0, input={"pipeline": pipeline(nodes, written("Prefetch"), *stages)}))

    assert not found.names_cause
    assert found.title.endswith(f" held up by {words}")
    assert values(found)["its functions"] == 2


def advised(pipeline: Any, *, used: float = 1.5, words: Words = TENSORFLOW) -> list[str]:
    """The names of what is advised in the words of a framework."""
    found = finding(NAME, trained(18.0, input={"pipeline": pipeline}, used=used, words=words))
    named = {words.advise(each, stage="map", function=name, size="400 B"): each.name for each in OF_PIPELINE for name in ("load", "parse")}
    return [named[fix.text] for fix in found.fixes if fix.text in named]


def test_calls_of_python_are_made_at_once_first_where_they_wait_and_last_where_they_compute():
    assert advised(slow_map(18.0), used=0.3)[:2] == ["PARALLEL_PYTHON", "STAGE_IN_FRAMEWORK"]
    assert advised(slow_map(18.0), used=1.5)[:2] == ["STAGE_IN_FRAMEWORK", "PARALLEL_PYTHON"]


def test_calls_are_not_advised_to_be_made_at_once_where_they_are():
    sequential, parallel = slow_map(18.0, in_python=False), slow_map(60.0, in_python=False, parallelism=4, tuned=True)

    assert advised(sequential) == ["PARALLEL_STAGE", "STAGE_OF_BATCHES", "STAGE_STORED"]
    assert advised(parallel) == ["STAGE_OF_BATCHES", "STAGE_STORED"]


def test_batches_ahead_are_advised_only_where_the_request_makes_them():
    nodes = [node(1, "Root", 2), node(2, "BatchV2", 3, ms=0.1), node(3, "Map", ms=18.0, each=4)]

    assert "STAGE_AHEAD" in advised(pipeline(nodes, written("Batch"), written("Map", PARSE)))
    assert "STAGE_AHEAD" not in advised(slow_map(18.0))


def test_storing_is_not_advised_where_the_pipeline_stores():
    nodes = [node(1, "Root", 2), node(2, "Prefetch", 3, buffer_size=2), node(3, "Map", 4, ms=18.0), node(4, "MemoryCache")]

    assert advised(pipeline(nodes, written("Prefetch"), written("Map", PARSE), written("Cache"))) == ["PARALLEL_STAGE"]


def test_a_generator_is_told_to_yield_batches():
    nodes = [
        node(1, "Root", 2),
        node(2, "Prefetch", 3, buffer_size=2),
        node(3, "BatchV2", 4),
        node(4, "FlatMap", 5, 6),
        node(5, "FromTensor"),
    ]
    nodes.append(node(6, "Generator", ms=18.0, each=4))
    stages = written("Prefetch"), written("Batch"), written("FlatMap", LOAD, LOAD, is_generator=True)

    assert advised(pipeline(nodes, *stages))[0] == "GENERATED_BATCHES"
    nodes[-1] = node(6, "Generator", ms=18.0)
    assert advised(pipeline(nodes, *stages))[0] == "STAGE_IN_FRAMEWORK"


@pytest.mark.parametrize(
    ("batch", "each", "is_told"),
    [
        ("BatchV2", 1.01, False),
        ("FilterDataset", 2.0, False),
        ("BatchV2", 1.5, True),
        ("PaddedBatchV2", 4.0, True),
    ],
    ids=["one element was read ahead", "nothing makes batches of them", "some are of several", "they are padded"],
)
def test_only_what_makes_single_samples_is_told_to_make_batches(batch, each, is_told):
    nodes = [node(1, "Root", 2), node(2, "Prefetch", 3, buffer_size=2), node(3, batch, 4), node(4, "Map", ms=18.0, each=each)]
    mapped = pipeline(nodes, written("Prefetch"), written(batch), written("Map", PARSE), batches=400)
    generator = written("FlatMap", LOAD, LOAD, is_generator=True)
    generated = pipeline([*nodes[:3], node(4, "FlatMap", ms=18.0, each=each)], written("Prefetch"), written(batch), generator, batches=400)

    assert ("STAGE_OF_BATCHES" in advised(mapped)) == is_told
    assert advised(generated)[0] == ("GENERATED_BATCHES" if is_told else "STAGE_IN_FRAMEWORK")


@pytest.mark.parametrize("name", ["keras", "tensorflow"])
def test_whoever_writes_tf_data_is_told_of_no_other_loader(name):
    words = all_words()[name]
    for known in (slow_map(18.0), slow_map(18.0, batches=4), slow_map(18.0, ready=2)):
        found = finding(NAME, trained(18.0, input={"pipeline": known}, words=words))
        assert not [fix.text for fix in found.fixes if "PyDataset" in fix.text or "DataLoader" in fix.text]


def test_of_arrays_nothing_is_advised_that_nobody_writes():
    nodes = [node(1, "Root", 2), node(2, "Map", ms=18.0)]

    found = finding(NAME, trained(18.0, input={"pipeline": pipeline(nodes, written("Map", reads="arrays"))}, words=all_words()["keras"]))

    (fix,) = found.fixes
    assert "converted once before fit()" in fix.text
    assert "cache" not in fix.text


def test_of_a_loader_that_is_only_handed_on_its_workers_are_advised():
    nodes = [node(1, "Root", 2), node(2, "FlatMap", 3, 4), node(3, "FromTensor"), node(4, "Generator", ms=18.0)]
    handed_on = pipeline(nodes, written("FlatMap", LOAD, LOAD, is_generator=True, reads="PyDataset"))

    found = finding(NAME, trained(18.0, input={"pipeline": handed_on}, words=all_words()["keras"]))

    assert "keras.utils.PyDataset(..., use_multiprocessing=True, workers=4, max_queue_size=...)" in found.fixes[0].text
    assert not [fix.text for fix in found.fixes if "cache" in fix.text]


def test_a_stage_that_takes_less_than_half_of_the_wait_is_not_blamed_for_it():
    nodes = [node(1, "Root", 2), node(2, "Map", ms=8.0)]

    assert not finding(NAME, trained(18.0, input={"pipeline": pipeline(nodes, written("Map", PARSE))})).names_cause


def test_of_an_eager_loop_it_is_judged_here_and_not_as_a_loader_without_workers():
    waits = {Part("read", PartKind.BLOCKED): 18.0}
    m = measurements(workers=0, making_ms=18.0, ledger=waits, input={"pipeline": slow_map(18.0)})

    assert finding(NAME, m).stage == "read"
    assert answer_of("serial-loader", m) is None
    assert answer_of(NAME, measurements(workers=0, making_ms=18.0, ledger=waits)) is None


def test_of_an_eager_loop_that_takes_several_batches_in_a_step_all_of_them_count():
    waits = {Part("read", PartKind.BLOCKED): 40.0}
    nodes = [node(1, "Root", 2), node(2, "Map", ms=9.0)]
    slow = pipeline(nodes, written("Map", PARSE), interval_ms=10.0)

    m = measurements(workers=0, making_ms=10.0, ledger=waits, input={"pipeline": slow}, batches_per_step=4.0)

    assert finding(NAME, m).names_cause
    assert values(finding(NAME, m))["batches of a step"] == 4.0
