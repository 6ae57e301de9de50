"""Stages of a pipeline as it runs are those that the script wrote, whatever the framework made of them."""

from __future__ import annotations

import polars as pl
import pytest

from made_pipelines import written
from slowstep.analyses.input.pipeline_functions import calls_functions, kinds_of, match_stages, written_stages
from slowstep.timeline.schema import TABLE


def matched(names: list[str], kinds: list[str]) -> list[list[str]]:
    return [[stage.kind for stage in found] for found in match_stages(names, [written(kind) for kind in kinds])]


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("MapAndBatch", ("Batch", "Map")),
        ("MapAndFilter", ("Filter", "Map")),
        ("ShuffleAndRepeat", ("Repeat", "Shuffle")),
        ("ParallelMapV2", ("Map",)),
        ("ParallelInterleaveV4", ("Interleave",)),
        ("ForeverRepeat", ("Repeat",)),
        ("MemoryCacheImpl", ("Cache",)),
        ("BatchV2", ("Batch",)),
        ("TFRecord", ("TFRecord",)),
        ("Parallel", ("Parallel",)),
    ],
)
def test_a_name_says_what_is_done_and_how(name, kinds):
    assert kinds_of(name) == kinds


@pytest.mark.parametrize("name", ["Map", "Filter", "FlatMap", "Interleave", "Scan", "TakeWhile", "Generator"])
def test_stages_that_call_functions_do_however_it_is_done(name):
    assert [calls_functions(each) for each in (name, f"Parallel{name}V2", "TFRecord", "BatchV2", "Range")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_fused_stages_are_all_of_their_own():
    assert matched(["MapAndBatch", "Shuffle", "Range"], ["Batch", "ParallelMap", "Shuffle", "Range"]) == [
        ["Batch", "ParallelMap"],
        ["Shuffle"],
        ["Range"],
    ]


def test_one_that_the_framework_put_in_is_nobody_s():
    assert matched(["Prefetch", "Map", "BatchV2"], ["Map", "Batch"]) == [[], ["Map"], ["Batch"]]


def test_maps_that_were_made_one_are_both_in_it():
    assert matched(["BatchV2", "ParallelMapV2", "Range"], ["Batch", "Map", "Map", "Range"]) == [["Batch"], ["Map", "Map"], ["Range"]]


def test_filters_that_follow_one_another_are_not_made_one():
    assert matched(["BatchV2", "Filter", "Range"], ["Batch", "Filter", "Filter", "Range"]) == [["Batch"], ["Filter"], ["Range"]]


def test_without_any_stage_none_is_found():
    assert matched([], ["Map"]) == []
    assert matched(["Map"], []) == [[]]


def test_all_functions_in_python_of_a_stage_are_known_each_once():
    stages = pl.DataFrame([(0, 1, 0, "Map", None, False, None, True)], schema=TABLE["pipeline_stages"].schema, orient="row")
    called = [(0, 1, 0, name != "both", name, "train.py", 3) for name in ("both", "load", "draw", "load")]

    (stage,) = written_stages(stages, pl.DataFrame(called, schema=TABLE["pipeline_functions"].schema, orient="row"), None)

    assert stage.given is not None
    assert (stage.given.name, [each.name for each in stage.in_python]) == ("both", ["load", "draw"])
    assert stage.loops
