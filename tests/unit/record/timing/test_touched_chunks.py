"""What a selection touches of an array that is stored in chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slowstep.record.timing.touched_chunks import touched

SHAPE, CHUNK = (3200, 64, 64, 3), (64, 64, 64, 3)
WINDOWS, TILES = (16, 1024, 1024), (16, 512, 512)


@pytest.mark.parametrize(
    ("shape", "chunk", "selection", "chunks", "lengths"),
    [
        (SHAPE, CHUNK, 70, 1, (1, 64, 64, 3)),
        (SHAPE, CHUNK, -1, 1, (1, 64, 64, 3)),
        (SHAPE, CHUNK, np.int64(70), 1, (1, 64, 64, 3)),
        (SHAPE, CHUNK, (70, ...), 1, (1, 64, 64, 3)),
        (SHAPE, CHUNK, (..., 0), 50, (3200, 64, 64, 1)),
        (SHAPE, CHUNK, slice(60, 70), 2, (10, 64, 64, 3)),
        (SHAPE, CHUNK, slice(64, 128), 1, (64, 64, 64, 3)),
        (SHAPE, CHUNK, slice(None, None, 64), 50, (50, 64, 64, 3)),
        (SHAPE, CHUNK, slice(None, None, 100), 32, (32, 64, 64, 3)),
        (SHAPE, CHUNK, slice(10, 0, -1), 1, (10, 64, 64, 3)),
        (SHAPE, CHUNK, slice(5, 5), 0, (0, 64, 64, 3)),
        (SHAPE, CHUNK, [1, 63, 64, 3199], 3, (4, 64, 64, 3)),
        (SHAPE, CHUNK, np.array([1, 63, 64]), 2, (3, 64, 64, 3)),
        ((4,), (2,), np.array([True, False, False, True]), 2, (2,)),
        ((4,), (2,), [False, False, True, True], 1, (2,)),
        (WINDOWS, TILES, (3, slice(0, 64), slice(0, 64)), 1, (1, 64, 64)),
        (WINDOWS, TILES, (3, slice(500, 564), slice(500, 564)), 4, (1, 64, 64)),
        (WINDOWS, TILES, (), 4, (16, 1024, 1024)),
    ],
)
def test_chunks_are_counted_and_lengths(shape: Any, chunk: Any, selection: Any, chunks: int, lengths: Any) -> None:
    assert touched(shape, chunk, selection) == (chunks, lengths)


class Counts:
    """A number of the script's own, which counts how often it is asked."""

    asked = 0

    def __index__(self) -> int:
        Counts.asked += 1
        return 3


@pytest.mark.parametrize(
    "selection",
    [
        "field",
        (1, 1, 1, 1, 1),
        (..., 1, ...),
        np.ones((3200, 64), dtype=bool),
        ([1, 2], [3, 4]),
        [[1, 2]],
        None,
        Counts(),
        slice(Counts(), None),
        [Counts()],
        slice(0, 10, 0),
        list(range(70_000)),
    ],
)
def test_what_is_not_understood_is_not_counted_and_no_code_of_the_scripts_runs(selection: Any) -> None:
    assert touched(SHAPE, CHUNK, selection) is None
    assert Counts.asked == 0
