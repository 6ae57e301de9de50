"""How many batches a pipeline has ready, by what is counted of its stages."""

from __future__ import annotations

from typing import Any

import pytest

from slowstep.frameworks.tensorflow.inside._input.readiness import ready_in


def node(number: int, name: str, *inputs: int, buffered: int = 0, ratio: float = 1.0) -> dict[str, Any]:
    return {"id": number, "name": name, "inputs": list(inputs), "buffered": buffered, "ratio": ratio}


@pytest.mark.parametrize(
    ("nodes", "ready"),
    [
        ([], 0.0),
        ([node(1, "Root", 2), node(2, "Prefetch", buffered=3, ratio=0.0)], 3.0),
        (
            [
                node(1, "Root", 2),
                node(2, "Prefetch", 3, buffered=3),
                node(3, "BatchV2", 4, ratio=8.0),
                node(4, "ParallelMapV2", buffered=4, ratio=0.0),
            ],
            3.5,
        ),
        ([node(1, "Prefetch", 9, buffered=2)], 2.0),
    ],
    ids=["nothing", "batches", "half a batch before it is one", "an input that is not there"],
)
def test_elements_that_are_no_batch_yet_count_as_parts_of_one(nodes, ready):
    assert ready_in(nodes) == pytest.approx(ready)


@pytest.mark.parametrize("name", ["Shuffle", "MemoryCache", "Window", "ParallelInterleaveV4", "Zip", "ShuffleAndRepeat", "OfATimeToCome"])
def test_what_keeps_elements_back_or_takes_of_several_has_none_ready_nor_has_what_is_before_it(name):
    before = [node(3, name, 4, 5, buffered=70), node(4, "Prefetch", buffered=2), node(5, "ParallelMap", buffered=3)]

    assert ready_in([node(1, "Root", 2), node(2, "ParallelBatch", 3, buffered=1, ratio=8.0), *before]) == 1.0


def test_batches_that_one_call_has_begun_are_not_ready():
    nodes = [node(1, "MapAndBatch", 2, buffered=3, ratio=8.0), node(2, "Prefetch", buffered=4)]

    assert ready_in(nodes) == pytest.approx(0.5)
