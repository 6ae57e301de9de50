"""Stages of a pipeline as it runs are those that the script wrote, whatever the framework made of them."""

from __future__ import annotations

import pytest

from slowstep.analyses.input.pipeline_functions import WrittenStage, kinds_of, match_stages


def written(*kinds: str) -> list[WrittenStage]:
    return [WrittenStage(kind=kind, is_generator=False, reads=None, given=None, in_python=None) for kind in kinds]


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
