"""Stages of a pipeline as it runs are those that the script wrote, whatever the framework made of them."""

from __future__ import annotations

import polars as pl
import pytest

from slowstep.analyses.input.pipeline_functions import WrittenStage, kinds_of, match_stages, written_stages
from slowstep.timeline.schema import TABLE


def written(*kinds: str) -> list[WrittenStage]:
    return [WrittenStage(kind=kind, is_generator=False, reads=None, given=None, in_python=()) for kind in kinds]


def matched(names: list[str], kinds: list[str]) -> list[list[str]]:
    return [[stage.kind for stage in found] for found in match_stages(names, written(*kinds))]


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("MapAndBatch", ("Batch", "Map")),
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


def test_without_any_stage_none_is_found():
    assert matched([], ["Map"]) == []
    assert matched(["Map"], []) == [[]]


def test_all_functions_in_python_of_a_stage_are_known_each_once():
    stages = pl.DataFrame([(0, 1, 0, "Map", None, False, None)], schema=TABLE["pipeline_stages"].schema, orient="row")
    called = [(0, 1, 0, name != "both", name, "train.py", 3) for name in ("both", "load", "draw", "load")]

    (stage,) = written_stages(stages, pl.DataFrame(called, schema=TABLE["pipeline_functions"].schema, orient="row"), None)

    assert stage.given is not None
    assert (stage.given.name, [each.name for each in stage.in_python]) == ("both", ["load", "draw"])
