"""What is shown of the stage that holds up a training, and what is advised, by how the pipeline runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from judged import finding
from made_pipeline_waits import trained
from made_pipelines import LOAD, PARSE, node, pipeline, slow_map, written
from slowstep.diagnosis.evidence.input.pipeline_side import STORED, stage_evidence, stage_name
from slowstep.frameworks._known import all_words
from slowstep.frameworks._remedies import Remedy
from slowstep.frameworks._words import Words
from slowstep.units import format_bytes

NAME = "slow-pipeline"
TENSORFLOW = all_words()["tensorflow"]
AHEAD = (node(1, "Root", 2), node(2, "Prefetch", 3, buffer_size=2))
OF_STAGES = ("PARALLEL_STAGE", "STAGE_AHEAD", "STAGE_IN_FRAMEWORK")
OF_PIPELINE = [each for each in Remedy if each.name.startswith(("PARALLEL_", "STAGE_", "GENERATED_"))]


def advised(pipeline: Any, *, used: float | None = 1.5, stage: str = "map", words: Words = TENSORFLOW) -> list[str]:
    """The names of what is advised in the words of a framework."""
    found = finding(NAME, trained(18.0, input={"pipeline": pipeline}, used=used, words=words))
    size = format_bytes(pipeline.slow_stage.bytes)
    functions = ("load", "parse", "its function")
    named = {words.advise(each, stage=stage, function=name, size=size): each.name for each in OF_PIPELINE for name in functions}
    return [named[fix.text] for fix in found.fixes if fix.text in named]


def test_calls_of_python_are_made_at_once_first_where_they_wait_and_last_where_they_compute():
    assert advised(slow_map(18.0), used=0.3)[:2] == ["PARALLEL_PYTHON", "STAGE_IN_FRAMEWORK"]
    assert advised(slow_map(18.0), used=0.68)[0] == "PARALLEL_PYTHON"
    assert advised(slow_map(18.0), used=0.72)[0] == "STAGE_IN_FRAMEWORK"
    assert advised(slow_map(18.0), used=None)[0] == "STAGE_IN_FRAMEWORK"
    assert advised(slow_map(18.0), used=1.5)[:2] == ["STAGE_IN_FRAMEWORK", "PARALLEL_PYTHON"]


def test_calls_are_not_advised_to_be_made_at_once_where_they_are():
    sequential, parallel = slow_map(18.0, in_python=False), slow_map(60.0, in_python=False, parallelism=4, tuned=True)

    assert advised(sequential) == ["PARALLEL_STAGE", "STAGE_OF_BATCHES", "STAGE_STORED"]
    assert advised(parallel) == ["STAGE_OF_BATCHES", "STAGE_STORED"]


def test_of_one_call_that_the_framework_has_chosen_no_more_are_advised():
    chosen, asked = (slow_map(18.0, in_python=False, parallelism=1, tuned=tuned) for tuned in (True, False))

    assert advised(chosen) == ["STAGE_OF_BATCHES", "STAGE_STORED"]
    assert advised(asked) == ["PARALLEL_STAGE", "STAGE_OF_BATCHES", "STAGE_STORED"]


def test_what_makes_data_sets_can_make_several_at_once():
    found = pipeline([*AHEAD, node(3, "Interleave", 4, ms=18.0), node(4, "Range")], *(written("Prefetch"), written("Interleave", PARSE)))

    assert advised(found, stage="interleave") == ["PARALLEL_STAGE", "STAGE_STORED"]


@pytest.mark.parametrize("kind", ["TFRecord", "TextLine", "FixedLengthRecord", "Csv"])
@pytest.mark.parametrize(("makes", "is_told"), [({}, True), ({"parallelism": 2}, False)], ids=["one file at a time", "several"])
def test_who_reads_files_one_at_a_time_is_told_to_read_several(kind, makes, is_told):
    # The framework makes a stage for each file.
    name = "ParallelInterleaveV4" if makes else "FlatMap"
    nodes = [*AHEAD, node(3, "BatchV2", 4, ratio=4.0), node(4, name, 5, 6, each=4.0, **makes), node(5, "TensorSlice", each=0.01)]
    nodes.append(node(6, kind, ms=18.0 * makes.get("parallelism", 1), each=4.0))

    found = pipeline(nodes, written("Prefetch"), written("Batch"), written(kind))

    assert stage_name(found.slow_stage) == f"{kind}Dataset"
    assert ("PARALLEL_READING" in advised(found, stage=f"{kind}Dataset")) == is_told


def test_who_reads_no_files_is_not_told_to_read_several():
    found = pipeline([*AHEAD, node(3, "Range", ms=18.0)], written("Prefetch"), written("Range"))

    assert advised(found, stage="range") == ["STAGE_STORED"]


def test_of_a_map_that_is_done_with_the_batch_an_element_is_the_batch():
    found = pipeline([*AHEAD, node(3, "MapAndBatch", ms=18.0)], written("Prefetch"), written("Batch"), written("Map", PARSE))

    assert advised(found) == ["PARALLEL_STAGE", "STAGE_OF_BATCHES", "STAGE_STORED"]


@pytest.mark.parametrize(
    ("functions", "used", "names"),
    [
        ((PARSE,), 1.5, ["STAGE_INTERLEAVED", "STAGE_STORED"]),
        ((PARSE, LOAD), 1.5, ["STAGE_IN_FRAMEWORK", "STAGE_INTERLEAVED", "STAGE_STORED"]),
        ((PARSE, LOAD), 0.3, ["STAGE_INTERLEAVED", "STAGE_IN_FRAMEWORK", "STAGE_STORED"]),
    ],
    ids=["of the framework", "in Python", "in Python, which waits"],
)
def test_what_reads_one_data_set_after_the_other_is_told_to_read_several(functions, used, names):
    nodes = [*AHEAD, node(3, "FlatMap", 4, 5), node(4, "Range"), node(5, "Map", ms=18.0)]
    found = pipeline(nodes, written("Prefetch"), written("FlatMap", *functions))

    assert advised(found, used=used, stage="flat_map") == names
    assert "interleave" in levers(found, used=used)


def test_windows_are_told_to_be_cut_at_once_and_are_not_mixed_up():
    nodes = [*AHEAD, node(3, "FlatMap", 4, 5, ms=0.1), node(4, "Window", 6, ms=0.1), node(5, "BatchV2", ms=18.0), node(6, "Range")]
    found = pipeline(nodes, written("Prefetch"), written("FlatMap", PARSE), written("Window"), written("Range"))

    assert advised(found, stage="flat_map") == ["STAGE_OF_WINDOWS", "STAGE_STORED"]


@pytest.mark.parametrize(("loops", "names"), [(True, ["STAGE_VECTORIZED"]), (False, [])])
def test_a_loop_over_the_parts_of_an_element_is_told_to_do_all_at_once(loops, names):
    for parallelism, more in ((1, ["PARALLEL_STAGE"]), (4, [])):
        map_node = node(3, "ParallelMapV2", 4, ms=18.0 * parallelism, parallelism=parallelism)
        found = pipeline([*AHEAD, map_node, node(4, "Range")], written("Prefetch"), written("ParallelMap", PARSE, loops=loops))

        assert advised(found) == [*names, *more, "STAGE_STORED"]


@pytest.mark.parametrize(
    ("kinds", "decoded", "record", "is_told"),
    [
        (("Shuffle", "Map"), 100_000, 5_000, True),
        (("Shuffle", "Map"), 10_000, 5_000, False),
        (("Shuffle", "Map"), 100_000, 90_000, False),
        (("Map", "Shuffle"), 100_000, 5_000, False),
        (("Shuffle", "Map", "Shuffle"), 100_000, 5_000, False),
    ],
    ids=["of what was decoded", "of what is small", "of what was as large before", "before it", "both"],
)
def test_a_shuffle_of_what_was_made_large_is_told_to_stand_before_it(kinds, decoded, record, is_told):
    stages = [
        node(3 + at, kind, 4 + at, ms=18.0 if kind == "Map" else 0.0, size=decoded if "Map" in kinds[at:] else record)
        for at, kind in enumerate(kinds)
    ]
    nodes = [*AHEAD, *stages, node(3 + len(kinds), "TFRecord", size=record)]
    found = pipeline(nodes, written("Prefetch"), *(written(kind, PARSE if kind == "Map" else None) for kind in kinds), written("TFRecord"))

    texts = [fix.text for fix in finding(NAME, trained(18.0, input={"pipeline": found}, words=TENSORFLOW)).fixes]
    assert (TENSORFLOW.advise(Remedy.SHUFFLED_BEFORE, stage="map", size=format_bytes(decoded)) in texts) == is_told


@pytest.mark.parametrize(
    ("stages", "names"),
    [
        ((), ["DEEPER_INPUT"]),
        ((written("Batch"), written("Map", PARSE)), ["DEEPER_INPUT"]),
        ((written("Batch"), written("Map", PARSE, LOAD)), ["DEEPER_INPUT", "STAGE_IN_FRAMEWORK"]),
        ((written("Prefetch"), written("Batch"), written("Map", PARSE)), ["PARALLEL_STAGE"]),
        ((written("Batch"), written("ParallelMap", PARSE)), ["STAGE_AHEAD"]),
        ((written("Prefetch"), written("Batch"), written("ParallelMap", PARSE, LOAD)), ["STAGE_IN_FRAMEWORK"]),
        ((written("Prefetch"), written("Batch"), written("ParallelMap", PARSE)), []),
    ],
)
def test_without_a_known_stage_what_the_pipeline_does_already_is_not_advised(stages, names):
    nothing_counted = replace(slow_map(18.0), stages=(), written=stages, slowest=None, bound_ns=None)
    words = {each: TENSORFLOW.advise(each, stage="map", function="load") for each in Remedy if each.name in ("DEEPER_INPUT", *OF_STAGES)}

    found = finding(NAME, trained(18.0, input={"pipeline": nothing_counted}, words=TENSORFLOW))

    assert [each.name for text in (fix.text for fix in found.fixes) for each, said in words.items() if said == text] == names


def test_without_a_known_stage_batches_that_the_framework_makes_ahead_unasked_are_not_advised():
    unasked = replace(slow_map(18.0, ready=2), written=(written("Batch"), written("ParallelMap", PARSE)), slowest=None, bound_ns=None)

    found = finding(NAME, trained(18.0, input={"pipeline": unasked}, words=TENSORFLOW))

    assert TENSORFLOW.advise(Remedy.STAGE_AHEAD) not in {fix.text for fix in found.fixes}


def test_without_a_known_stage_a_pipeline_that_stores_is_not_told_to():
    stored, not_stored = (
        finding(NAME, trained(18.0, input={"pipeline": replace(slow_map(18.0, ready=2), written=stages)}, words=TENSORFLOW))
        for stages in ((written("Prefetch"), written("Cache")), (written("Prefetch"),))
    )

    assert [STORED.text in {fix.text for fix in found.fixes} for found in (stored, not_stored)] == [False, True]


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


def test_a_generator_is_told_to_yield_batches_where_a_map_makes_them_of_its_samples():
    nodes = [*AHEAD, node(3, "MapAndBatch", 4), node(4, "FlatMap", ms=18.0, each=4)]
    stages = written("Prefetch"), written("Batch"), written("Map", PARSE), written("FlatMap", LOAD, LOAD, is_generator=True)

    assert advised(pipeline(nodes, *stages))[0] == "GENERATED_BATCHES"


@pytest.mark.parametrize(
    ("batch", "each", "is_told"),
    [
        ("BatchV2", 1.01, False),
        ("BatchV2", 1.45, False),
        ("FilterDataset", 2.0, False),
        ("BatchV2", 1.5, True),
        ("PaddedBatchV2", 4.0, True),
    ],
    ids=[
        "one element was read ahead",
        "few were",
        "nothing makes batches of them",
        "some are of several",
        "they are padded",
    ],
)
def test_only_what_makes_single_samples_is_told_to_make_batches(batch, each, is_told):
    nodes = [node(1, "Root", 2), node(2, "Prefetch", 3, buffer_size=2), node(3, batch, 4), node(4, "Map", ms=18.0, each=each)]
    mapped = pipeline(nodes, written("Prefetch"), written(batch), written("Map", PARSE), batches=400)
    generator = written("FlatMap", LOAD, LOAD, is_generator=True)
    generated = pipeline([*nodes[:3], node(4, "FlatMap", ms=18.0, each=each)], written("Prefetch"), written(batch), generator, batches=400)

    assert ("STAGE_OF_BATCHES" in advised(mapped)) == is_told
    assert advised(generated)[0] == ("GENERATED_BATCHES" if is_told else "STAGE_IN_FRAMEWORK")


@pytest.mark.parametrize(
    ("name", "stages", "words"),
    [
        ("MapAndBatch", [written("Batch"), written("Map", PARSE)], "map"),
        ("MapAndFilter", [written("Filter", PARSE), written("Map", PARSE)], "filter"),
        ("FlatMap", [written("FlatMap", PARSE)], "flat_map"),
        ("FlatMap", [written("FlatMap", LOAD, LOAD, is_generator=True)], "from_generator"),
        ("GroupByWindow", [written("GroupByWindow")], "group_by_window"),
        ("MapAndBatch", [], "map"),
        ("TFRecord", [], "TFRecordDataset"),
    ],
)
def test_a_stage_is_called_what_the_script_calls_it(name, stages, words):
    found = pipeline([*AHEAD, node(3, name, ms=18.0)], written("Prefetch"), *stages)

    assert stage_name(found.slow_stage) == words


def test_what_says_that_it_is_this_stage_are_its_time_its_calls_and_its_buffer():
    nodes = [*AHEAD, node(3, "ParallelMapV2", 4, ms=36.0, parallelism=2), node(4, "Range")]
    nodes[1] = node(2, "Prefetch", 3, buffer_size=4, buffered=1)
    found = pipeline(nodes, written("Prefetch"), written("Map", PARSE))

    assert [(row.value, row.where) for row in stage_evidence(found, found.slow_stage)] == [
        ("map", "parse, train.py:12"),
        (pytest.approx(36.0), None),
        (2, "1.8 on average"),
        (0.0, None),
    ]


def test_the_buffer_that_is_shown_is_the_one_that_it_fills():
    nodes = [*AHEAD, node(3, "Zip", 4, 5), node(4, "Prefetch", 6, buffer_size=2, buffered=2), node(5, "Map", ms=18.0), node(6, "Range")]
    nodes[1] = node(2, "Prefetch", 3, buffer_size=4, buffered=1)
    found = pipeline(nodes)

    assert stage_evidence(found, found.slow_stage)[-1].value == 0.25


def test_of_a_stage_that_was_made_anew_the_times_between_which_it_lies_are_shown():
    found = slow_map(18.0)
    stage = replace(found.slow_stage, low_ns=9.06e6, high_ns=21e6)

    assert stage_evidence(found, stage)[1].where == "between 9.06 and 21"


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


def levers(pipeline: Any, **more: Any) -> set[str | None]:
    """Those that try what is advised."""
    return {fix.lever for fix in finding(NAME, trained(18.0, input={"pipeline": pipeline}, words=TENSORFLOW, **more)).fixes}


def test_a_lever_tries_parallel_calls_of_a_map_and_one_several_inputs_of_an_interleave():
    interleaved = pipeline([*AHEAD, node(3, "Interleave", 4, ms=18.0), node(4, "Range")], written("Prefetch"), written("Interleave", PARSE))

    assert levers(slow_map(18.0, in_python=False)) == {"parallel-calls", "cache", None}
    assert levers(slow_map(18.0), used=0.3) == {"parallel-calls", None}
    assert levers(slow_map(60.0, in_python=False, parallelism=4, tuned=True)) == {"cache", None}
    assert levers(interleaved) == {"interleave", "cache", None}


@pytest.mark.parametrize(("kind", "lever"), [("Map", "parallel-calls"), ("Interleave", "interleave")])
def test_so_it_does_where_it_is_not_known_which_stage_is_slow(kind, lever):
    unknown = replace(slow_map(18.0, ready=2), written=(written("Prefetch"), written(kind, PARSE)))

    assert levers(unknown) == {lever, "cache", None}


def test_a_lever_reads_several_files_at_once():
    nodes = [*AHEAD, node(3, "BatchV2", 4, ratio=4.0), node(4, "FlatMap", 5, 6, each=4.0), node(5, "TensorSlice", each=0.01)]
    nodes.append(node(6, "TFRecord", ms=18.0, each=4.0))

    assert levers(pipeline(nodes, written("Prefetch"), written("Batch"), written("TFRecord"))) == {"interleave", "cache", None}


@pytest.mark.parametrize(
    ("stages", "is_tried"),
    [
        ((written("Map", PARSE), written("Range")), True),
        ((written("Shuffle"), written("Map", PARSE), written("Range")), True),
        ((written("Map", PARSE), written("Shuffle"), written("Range")), False),
        ((written("Map", PARSE, LOAD), written("Range")), False),
        ((written("Map", PARSE), written("Map", LOAD, LOAD), written("TFRecord")), False),
    ],
    ids=["a map", "before a shuffle", "behind a shuffle", "in Python", "behind Python"],
)
def test_a_lever_stores_what_may_be_the_same_in_each_epoch(stages, is_tried):
    nodes = [*AHEAD, *(node(3 + at, each.kind, *([4 + at] if at + 1 < len(stages) else [])) for at, each in enumerate(stages))]
    nodes = [{**each, "ms": 18.0 if each["name"] == "Map" else each["ms"]} for each in nodes]
    first = next(at for at, each in enumerate(nodes) if each["ms"])
    nodes = [{**each, "ms": each["ms"] if at == first else 0.0} for at, each in enumerate(nodes)]

    assert ("cache" in levers(pipeline(nodes, written("Prefetch"), *stages))) == is_tried


def test_a_lever_tries_batches_ahead_where_the_request_makes_them():
    nodes = [node(1, "Root", 2), node(2, "BatchV2", 3, ms=0.1), node(3, "Map", ms=18.0, each=4)]

    assert "prefetch=2" in levers(pipeline(nodes, written("Batch"), written("Map", PARSE)))
    assert "prefetch=2" not in levers(slow_map(18.0))
