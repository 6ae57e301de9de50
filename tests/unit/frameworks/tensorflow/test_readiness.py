"""How many batches a pipeline has ready, by what is counted of its stages."""

from __future__ import annotations

from typing import Any

import pytest

from slowstep.frameworks.tensorflow.inside._input.readiness import ready_in


def node(number: int, *inputs: int, buffered: int = 0, ratio: float = 1.0) -> dict[str, Any]:
    return {"id": number, "inputs": list(inputs), "buffered": buffered, "ratio": ratio}


@pytest.mark.parametrize(
    ("nodes", "ready"),
    [
        ([], 0.0),
        ([node(1, 2), node(2, buffered=3, ratio=0.0)], 3.0),
        ([node(1, 2), node(2, 3, buffered=3), node(3, 4, ratio=8.0), node(4, buffered=4, ratio=0.0)], 3.5),
        ([node(1, 2, 3), node(2, buffered=1, ratio=0.0), node(3, buffered=2, ratio=0.0)], 3.0),
        ([node(1, 9, buffered=2)], 2.0),
    ],
    ids=["nothing", "batches", "half a batch before it is one", "two sources", "an input that is not there"],
)
def test_elements_that_are_no_batch_yet_count_as_parts_of_one(nodes, ready):
    assert ready_in(nodes) == pytest.approx(ready)
